"use strict";
(() => {
  const root = document.documentElement, button = document.getElementById("theme");
  const isDark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  button.hidden = false;
  button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; });
  const reveal = () => {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let node = target; node; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true;
    if (target) { target.scrollIntoView({ block: "center" }); if (target.hasAttribute("tabindex")) target.focus({ preventScroll: true }); }
  };
  addEventListener("hashchange", reveal);
  reveal();
})();
