"use strict";
// The page's field and order hold for all rows of variants; a column's button sorts its table. Without this all is shown.
const rows = [...document.querySelectorAll("[data-variant]")];
const heat = document.querySelector(".heat");
const wanted = { words: [], all: false };

/** Words name what they name; without any, rows that are not about what to run are shown only if they are asked for. */
function isShown({ dataset }) {
  if (wanted.words.length === 0) return wanted.all || dataset.aside === undefined;
  return wanted.words.some((word) => dataset.variant.includes(word));
}

/** Numbers come before words, and what is missing comes last. */
function compare(first, second) {
  if (first === second) return 0;
  if (first === null || first === undefined) return 1;
  if (second === null || second === undefined) return -1;
  if (typeof first !== typeof second) return typeof first === "number" ? -1 : 1;
  return typeof first === "string" ? first.localeCompare(second, "en", { numeric: true }) : first - second;
}

/** Returns what a cell is sorted by: the figure that its text begins with, else the text; a version is no figure. */
function sortedBy(cell) {
  const text = cell.textContent, number = Number.parseFloat(text.replaceAll(",", ""));
  if (text === "-" || text === "") return null;
  return Number.isNaN(number) || /^\d+\.\d+\.\d/.test(text) ? text : number;
}

function makeSortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  for (const [index, head] of heads.entries()) {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: head.textContent });
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const each of heads) each.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const keyed = [...table.tBodies[0].rows].map((row) => [sortedBy(row.cells[index]), row]);
      // Rows without a figure come last in either direction.
      keyed.sort(([first], [second]) => (down && first !== null && second !== null ? compare(second, first) : compare(first, second)));
      table.tBodies[0].append(...keyed.map(([, row]) => row));
    });
  }
}
for (const table of document.querySelectorAll(".grid:not(.heat) table")) makeSortable(table);

/** The rows of the heat map and of each chart stand as they were written, or by their ratio. */
const ordered = [heat.querySelector("tbody"), ...document.querySelectorAll(".dots ul")].map((list) => ({ list, items: [...list.children] }));
function order(best) {
  const ratio = ({ dataset }) => (dataset.ratio ? Number(dataset.ratio) : null);
  for (const { list, items } of ordered) list.append(...(best ? [...items].sort((first, second) => compare(ratio(first), ratio(second))) : items));
}

const filter = document.getElementById("filter");
const choice = document.getElementById("order");
const all = document.getElementById("all");
function apply() {
  wanted.words = filter.value.toLowerCase().split(/[\s,]+/).filter(Boolean);
  wanted.all = Boolean(all?.checked);
  for (const row of rows) row.hidden = !isShown(row);
  order(choice.value === "best");
  const names = [...heat.querySelectorAll("tbody tr")], shown = names.filter((row) => !row.hidden).length;
  document.getElementById("shown").textContent = `${shown} of ${names.length}`;
  document.querySelector("[data-heat-note]").textContent = shown ? "" : "No row is left: clear a filter.";
}
filter.addEventListener("input", apply);
choice.addEventListener("change", apply);
all?.addEventListener("change", apply);
new ResizeObserver(() => { document.querySelector(".scrolls").hidden = heat.scrollWidth <= heat.clientWidth + 1; }).observe(heat);

// A link to what is folded unfolds it, and so does paper.
function goTo() {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (!target) return;
  for (let place = target; place; place = place.parentElement) if (place.matches("details")) place.open = true;
  const own = target.querySelector(":scope > details.fold");
  if (own) own.open = true;
  target.scrollIntoView();
}
addEventListener("hashchange", goTo);
addEventListener("beforeprint", () => { for (const fold of document.querySelectorAll("details:not(.behind)")) fold.open = true; });
document.getElementById("copy").addEventListener("click", async ({ target }) => {
  await navigator.clipboard.writeText(document.getElementById("command").textContent);
  target.textContent = "Copied";
});
// The page of a running experiment loads itself again, until it is used.
const { reloadS } = document.documentElement.dataset;
if (reloadS) {
  const timer = setTimeout(() => location.reload(), 1000 * reloadS);
  for (const use of ["keydown", "pointerdown"]) addEventListener(use, () => clearTimeout(timer));
}
apply();
goTo();
document.documentElement.dataset.ready = Math.round(performance.now());
