/* Search without a server: a browser starts no Worker for a page that was opened from disk, so a hidden frame of the same
   page plays one. Enters: the address of a worker's script. Leaves: an object with postMessage and "message" events.
   Refuses nothing; where pages come from a server, the browser's own Worker stays. The theme asks for the name IFrameWorker. */
(function () {
  "use strict";
  if (location.protocol !== "file:") return;

  class IFrameWorker extends EventTarget {
    constructor(address) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.title = "search";
      document.body.appendChild(this.frame);
      this.waiting = [];
      const inside = this.frame.contentWindow;
      const scripts = (...names) => names.reduce((before, name) => before.then(() => this.load(name)), Promise.resolve());
      inside.importScripts = scripts;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.load(String(address)).then(() => {
        this.ready = true;
        this.waiting.splice(0).forEach((data) => this.postMessage(data));
      });
    }

    load(address) {
      return new Promise((done, failed) => {
        const script = this.frame.contentDocument.createElement("script");
        script.src = address;
        script.onload = done;
        script.onerror = failed;
        this.frame.contentDocument.body.appendChild(script);
      });
    }

    postMessage(data) {
      if (!this.ready) this.waiting.push(data);
      else this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }

    terminate() {
      this.frame.remove();
    }
  }

  window.IFrameWorker = IFrameWorker;
  window.Worker = IFrameWorker;
})();
