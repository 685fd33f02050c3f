(() => {
  const rows = (marked) => [...document.querySelectorAll(marked ? ".row.marked" : ".row")];
  const show = (row) => {
    row.scrollIntoView({ block: "center" });
    requestAnimationFrame(() => row.scrollIntoView({ block: "center" })); // parts that were skipped have their height only now
    const label = row.querySelector(".middle") || row, frame = row.closest(".scroll");
    if (!frame) return;
    const text = label.getBoundingClientRect(), visible = frame.getBoundingClientRect();
    frame.scrollLeft += text.left + text.width / 2 - (visible.left + visible.width / 2);
  };
  document.addEventListener("focusin", (event) => { if (event.target.classList.contains("row")) show(event.target); });
  if (document.activeElement.classList.contains("row")) show(document.activeElement);
  const move = (marked, step) => {
    const all = rows(marked), index = all.indexOf(document.activeElement);
    let next;
    if (marked) {
      const every = rows(false), current = every.indexOf(document.activeElement);
      next = all.find((row) => every.indexOf(row) > current) || all[0];
    } else next = index < 0 ? all[step > 0 ? 0 : all.length - 1] : all[index + step];
    if (!next) return;
    for (let node = next; node; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true;
    next.focus({ preventScroll: true });
  };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
    const inside = event.target.classList && event.target.classList.contains("row");
    const step = event.key === "j" || (inside && event.key === "ArrowDown") ? 1
      : event.key === "k" || (inside && event.key === "ArrowUp") ? -1 : 0;
    if (step) move(false, step);
    else if (event.key === "n") move(true, 1);
    else return;
    event.preventDefault();
  });
})();
