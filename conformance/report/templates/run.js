(() => {
  const form = document.getElementById("filter");
  if (!form) return;
  const words = form.querySelector("input[type=search]"), count = document.getElementById("shown");
  const boxes = [...form.querySelectorAll("input[type=checkbox]")];
  const rows = [...document.querySelectorAll("[data-words]")], folds = [...document.querySelectorAll("details.fold")];
  const usual = boxes.filter((box) => box.checked).map((box) => box.value).join(",");
  const mark = "#show?";
  const read = () => {
    if (!location.hash.startsWith(mark)) return;
    const asked = new URLSearchParams(location.hash.slice(mark.length));
    words.value = asked.get("words") || "";
    const outcomes = new Set((asked.get("outcomes") ?? usual).split(","));
    for (const box of boxes) box.checked = outcomes.has(box.value);
  };
  const write = () => {
    const asked = new URLSearchParams(), outcomes = boxes.filter((box) => box.checked).map((box) => box.value).join(",");
    if (words.value) asked.set("words", words.value);
    if (outcomes !== usual) asked.set("outcomes", outcomes);
    const hash = `${asked}` ? mark + asked : "";
    if (hash || location.hash.startsWith(mark)) history.replaceState(null, "", hash || location.href.split("#")[0]);
  };
  const apply = () => {
    const text = words.value.trim().toLowerCase();
    const outcomes = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
    let shown = 0;
    for (const row of rows) {
      const fits = row.dataset.outcomes.split(" ").some((one) => outcomes.has(one));
      row.hidden = !(fits && row.dataset.words.toLowerCase().includes(text));
      if (!row.hidden) shown += 1;
    }
    for (const fold of folds) {
      const own = [...fold.querySelectorAll("[data-words]")], any = own.some((row) => !row.hidden);
      fold.hidden = own.length > 0 && !any;
      if (text && any) fold.open = true;
    }
    count.textContent = `${shown} of ${rows.length} rows`;
  };
  form.hidden = false;
  form.addEventListener("input", () => { apply(); write(); });
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", () => { read(); apply(); });
  read();
  apply();
})();
(() => {
  const value = (row, column) => {
    const cell = row.cells[column], text = cell ? cell.dataset.sort || cell.textContent.trim() : "";
    return text !== "" && !Number.isNaN(Number(text)) ? Number(text) : text.toLowerCase();
  };
  const before = (a, b) => typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1;
  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const way = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
        for (const one of table.tHead.rows[0].cells) one.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", way > 0 ? "ascending" : "descending");
        for (const body of table.tBodies)
          body.append(...[...body.rows].sort((a, b) => way * before(value(a, column), value(b, column))));
      });
    });
  }
})();
