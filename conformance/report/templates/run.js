(() => {
  const form = document.getElementById("filter");
  if (!form) return;
  const words = form.querySelector("input[type=search]"), count = document.getElementById("shown");
  const boxes = [...form.querySelectorAll("input[type=checkbox]")];
  const rows = [...document.querySelectorAll("[data-words]")], folds = [...document.querySelectorAll("details.fold")];
  const initialOutcomes = boxes.filter((box) => box.checked).map((box) => box.value).join(",");
  const prefix = "#show?";
  const readHash = () => {
    if (!location.hash.startsWith(prefix)) return;
    const parameters = new URLSearchParams(location.hash.slice(prefix.length));
    words.value = parameters.get("words") || "";
    const outcomes = new Set((parameters.get("outcomes") ?? initialOutcomes).split(","));
    for (const box of boxes) box.checked = outcomes.has(box.value);
  };
  const writeHash = () => {
    const parameters = new URLSearchParams(), outcomes = boxes.filter((box) => box.checked).map((box) => box.value).join(",");
    if (words.value) parameters.set("words", words.value);
    if (outcomes !== initialOutcomes) parameters.set("outcomes", outcomes);
    const hash = `${parameters}` ? prefix + parameters : "";
    if (hash || location.hash.startsWith(prefix)) history.replaceState(null, "", hash || location.href.split("#")[0]);
  };
  const apply = () => {
    const text = words.value.trim().toLowerCase();
    const outcomes = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
    let shown = 0;
    for (const row of rows) {
      const fits = row.dataset.outcomes.split(" ").some((outcome) => outcomes.has(outcome));
      row.hidden = !(fits && row.dataset.words.toLowerCase().includes(text));
      if (!row.hidden) shown += 1;
    }
    for (const fold of folds) {
      const members = [...fold.querySelectorAll("[data-words]")], any = members.some((row) => !row.hidden);
      fold.hidden = members.length > 0 && !any;
      if (text && any) fold.open = true;
    }
    count.textContent = `${shown} of ${rows.length} rows`;
  };
  form.hidden = false;
  form.addEventListener("input", () => { apply(); writeHash(); });
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", () => { readHash(); apply(); });
  readHash();
  apply();
})();
(() => {
  const value = (row, column) => {
    const cell = row.cells[column], text = cell ? cell.dataset.sort || cell.textContent.trim() : "";
    return text !== "" && !Number.isNaN(Number(text)) ? Number(text) : text.toLowerCase();
  };
  const compare = (a, b) => typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1;
  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const direction = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
        for (const cell of table.tHead.rows[0].cells) cell.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
        for (const body of table.tBodies)
          body.append(...[...body.rows].sort((a, b) => direction * compare(value(a, column), value(b, column))));
      });
    });
  }
})();
