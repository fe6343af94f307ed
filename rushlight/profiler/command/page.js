// Clicking a frame of the flame graph makes it as wide as the picture; clicking the outermost shows all again.
(function () {
  var svg = document.getElementById("flame");
  if (!svg) return;
  var width = 1200, letter = 6.6, frames = Array.prototype.slice.call(svg.querySelectorAll(".frame"));
  function place(left, span, depth) {
    frames.forEach(function (g) {
      var x = +g.dataset.x, w = +g.dataset.w, d = +g.dataset.d, above = d < depth;
      var inside = x >= left - 0.01 && x + w <= left + span + 0.01;
      var around = above && x <= left + 0.01 && x + w >= left + span - 0.01;
      g.style.display = inside && !above || around ? "" : "none";
      if (g.style.display) return;
      g.classList.toggle("f-faded", above);
      var at = above ? 0 : (x - left) / span * width, wide = above ? width : w / span * width;
      var rect = g.querySelector("rect"), text = g.querySelector("text"), name = g.dataset.n;
      rect.setAttribute("x", at); rect.setAttribute("width", Math.max(wide - 0.5, 0.3));
      if (!text) { text = document.createElementNS(svg.namespaceURI, "text"); text.setAttribute("y", d * 19 + 13); g.appendChild(text); }
      var room = Math.floor((wide - 6) / letter);
      text.setAttribute("x", at + 4);
      text.textContent = name.length <= room ? name : room > 3 ? name.slice(0, room - 1) + "…" : "";
    });
  }
  frames.forEach(function (g) {
    g.addEventListener("click", function () { place(+g.dataset.x, +g.dataset.w, +g.dataset.d); });
  });
})();
