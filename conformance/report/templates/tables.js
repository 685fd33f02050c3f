(() => {
  const form = document.getElementById("filter"), box = form.querySelector("input");
  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  const rows = [...document.querySelectorAll("tbody tr")].map((row) => [row, row.textContent.toLowerCase()]);
  box.addEventListener("input", () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const [row, text] of rows) row.hidden = !words.every((word) => text.includes(word));
  });
})();
