(() => {
  const form = document.getElementById("filter");
  if (!form) return;
  const words = form.querySelector("input[type=search]"), told = document.getElementById("shown");
  const rows = [...document.querySelectorAll("[data-words]")];
  const apply = () => {
    const text = words.value.trim().toLowerCase();
    const outcomes = new Set([...form.querySelectorAll("input[type=checkbox]:checked")].map((box) => box.value));
    let shown = 0;
    for (const row of rows) {
      const fits = row.dataset.outcomes.split(" ").some((one) => outcomes.has(one));
      row.hidden = !(fits && row.dataset.words.toLowerCase().includes(text));
      if (!row.hidden) shown += 1;
    }
    told.textContent = `${shown} of ${rows.length} rows`;
  };
  form.hidden = false;
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  apply();
})();
