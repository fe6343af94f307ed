/* The list of versions in a page's foot: filled from ../versions.js of the site, which each build writes anew. */
(function () {
  "use strict";
  const place = document.querySelector("[data-versions]");
  const known = window.RUSHLIGHT_VERSIONS || [];
  if (!place || known.length < 2) return;
  for (const version of known) {
    const link = document.createElement("a");
    link.textContent = version;
    link.href = place.dataset.versions + version + "/index.html";
    place.append(" ", link);
  }
})();
