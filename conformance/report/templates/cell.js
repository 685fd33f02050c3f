(() => {
  const rows = (marked) => [...document.querySelectorAll(marked ? ".row.marked" : ".row")];
  const show = (row) => {
    row.scrollIntoView({ block: "center" });
    requestAnimationFrame(() => row.scrollIntoView({ block: "center" })); // parts that were left out have their height now
    const said = row.querySelector(".middle") || row, frame = row.closest(".scroll");
    if (!frame) return;
    const text = said.getBoundingClientRect(), seen = frame.getBoundingClientRect();
    frame.scrollLeft += text.left + text.width / 2 - (seen.left + seen.width / 2);
  };
  document.addEventListener("focusin", (event) => { if (event.target.classList.contains("row")) show(event.target); });
  if (document.activeElement.classList.contains("row")) show(document.activeElement);
  const go = (marked, way) => {
    const all = rows(marked), here = all.indexOf(document.activeElement);
    let next;
    if (marked) {
      const every = rows(false), at = every.indexOf(document.activeElement);
      next = all.find((row) => every.indexOf(row) > at) || all[0];
    } else next = here < 0 ? all[way > 0 ? 0 : all.length - 1] : all[here + way];
    if (!next) return;
    for (let at = next; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    next.focus({ preventScroll: true });
  };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
    const inside = event.target.classList && event.target.classList.contains("row");
    const way = event.key === "j" || (inside && event.key === "ArrowDown") ? 1
      : event.key === "k" || (inside && event.key === "ArrowUp") ? -1 : 0;
    if (way) go(false, way);
    else if (event.key === "n") go(true, 1);
    else return;
    event.preventDefault();
  });
})();
