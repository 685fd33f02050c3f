"use strict";
(() => {
  const root = document.documentElement, button = document.getElementById("theme");
  const dark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  button.hidden = false;
  button.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; });
  const reveal = () => {
    const found = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let at = found; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    if (found) { found.scrollIntoView({ block: "center" }); if (found.hasAttribute("tabindex")) found.focus({ preventScroll: true }); }
  };
  addEventListener("hashchange", reveal);
  reveal();
})();
