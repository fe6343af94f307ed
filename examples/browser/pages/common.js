const find = (name) => document.querySelector(`[data-${name}]`);
const bytesOf = (id) => Uint8Array.from(atob(document.getElementById(id).textContent.trim()), (c) => c.charCodeAt(0));
const facts = JSON.parse(document.getElementById("facts").textContent);
const tell = (words) => { find("problem").textContent = words; };

// The compiled model, or null with the reason in words.
async function ready() {
  if (typeof WebAssembly === "undefined") {
    tell("This browser has no WebAssembly (some hardened modes switch it off), and the model needs it.");
    return null;
  }
  try {
    return await load(bytesOf("wasm"), bytesOf("weights"));
  } catch (problem) {
    tell(`The model in this page could not be started: ${problem.message} ` +
         "A browser from 2021 or later is needed; if yours is, the file may be damaged: build it again.");
    return null;
  }
}
