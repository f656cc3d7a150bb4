"use strict";
// The page's field and order hold for all rows of variants; a column's button sorts its table.
const report = JSON.parse(window.reportText);
const unpack = ({ columns, rows }) => rows.map((row) => Object.fromEntries(columns.map((key, index) => [key, row[index]])));
const frames = Object.fromEntries(Object.entries(report.frames).map(([name, frame]) => [name, unpack(frame)]));
const wanted = { words: [], best: false, all: false };
const asides = new Set(report.asides);

/** Words name what they name; without any, rows that are not about what to run are shown only if they are asked for. */
const isShown = (name) => (wanted.words.length === 0 ? wanted.all || !asides.has(name) : wanted.words.some((word) => name.includes(word)));
const recordsOf = ({ frame, where }) =>
  frames[frame].filter((record) => Object.entries(where).every(([key, value]) => record[key] === value) && isShown(record.variant));

/** Numbers come before words, and what is missing comes last. */
function compare(first, second) {
  if (first === second) return 0;
  if (first === null || first === undefined) return 1;
  if (second === null || second === undefined) return -1;
  if (typeof first !== typeof second) return typeof first === "number" ? -1 : 1;
  return typeof first === "string" ? first.localeCompare(second, "en", { numeric: true }) : first - second;
}

/** Returns what a cell is sorted by: the figure that its text begins with, else the text. */
function sortedBy(cell) {
  const text = cell.textContent, number = Number.parseFloat(text.replaceAll(",", ""));
  if (text === "-" || text === "") return null;
  return Number.isNaN(number) ? text : number;
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

// Charts are drawn when they come near the window, and the rest when the browser has nothing else to do.
const NARROW_PX = 600;
const charts = [...document.querySelectorAll("[data-chart]")].map((place) => ({
  place, name: place.dataset.chart, ...report.charts[place.dataset.chart], layout: null, drawn: null,
}));
const near = new Set();
const noteOf = (chart) => document.querySelector(`[data-note="${chart.name}"]`);
const layoutOf = (chart) => (chart.place.parentElement.clientWidth < NARROW_PX ? "narrow" : "wide");

/** Returns the records that a chart draws. */
const drawnOf = (chart) => recordsOf(chart).filter((one) => !chart.needs || one[chart.needs] !== null);

/** Returns a sentence about variants that the picture leaves out. */
function note(chart, count) {
  if (count === 0) return "Nothing to draw: no variant that is shown has a figure here.";
  const missing = new Set(recordsOf(chart).map((one) => one.variant)).size - count;
  return missing ? `${missing} variant${missing > 1 ? "s have" : " has"} no figure here.` : "";
}

/** Returns the chart's records, each with the order of its row. */
function ordered(chart) {
  const records = drawnOf(chart);
  const rank = new Map(report.variants.map((name, index) => [name, index]));
  const names = [...new Set(records.map((one) => one.variant))];
  names.sort((one, other) => (rank.get(one) ?? 1e6) - (rank.get(other) ?? 1e6));
  if (wanted.best) {
    const own = new Map(records.map((one) => [one.variant, one.ratio]));
    const ratio = (name) => own.get(name) ?? report.means[name];
    names.sort((one, other) => compare(ratio(one), ratio(other)));
  }
  const order = new Map(names.map((name, index) => [name, index]));
  return { rows: records.map((one) => ({ ...one, order: order.get(one.variant) })), count: names.length };
}

async function draw(chart) {
  const layout = layoutOf(chart);
  const { rows, count } = ordered(chart);
  const specification = chart[layout];
  chart.layout = layout;
  noteOf(chart).textContent = note(chart, count);
  if (chart.drawn) chart.drawn.finalize();
  chart.drawn = null;
  if (count === 0) return chart.place.replaceChildren();
  chart.drawn = await vegaEmbed(chart.place, {
    ...specification,
    width: chart.place.parentElement.clientWidth,
    datasets: { ...specification.datasets, rows },
  }, {
    renderer: "svg", actions: false, defaultStyle: false, tooltip: { disableDefaultStyle: true },
    ast: true, // interpreted: the page allows no code that is made of text
    // Here and not above, where Vega-Lite would warn that a height by rows cannot be fitted.
    patch: (compiled) => ({ ...compiled, autosize: { type: "fit-x", contains: "padding" } }),
  });
  chart.place.style.minHeight = "";
  // The place is one picture with a name.
  chart.place.querySelector("svg").setAttribute("aria-hidden", "true");
  const scroll = chart.place.parentElement;
  const scrolls = scroll.scrollWidth > scroll.clientWidth + 1;
  // Whatever scrolls can be reached by keyboard, and so needs a name.
  if (scrolls) { scroll.tabIndex = 0; scroll.setAttribute("role", "region"); } else { scroll.removeAttribute("tabindex"); scroll.removeAttribute("role"); }
}

/** Draws stale charts one after the other, those near the window first; the page stays responsive. */
const stale = new Set();
let drawing = false;
// A page that is out of sight may never be idle: its charts are drawn all the same.
const whenIdle = (done) => (window.requestIdleCallback ? requestIdleCallback(done, { timeout: 100 }) : setTimeout(done));
const isFolded = (chart) => chart.place.closest("details:not([open])") !== null;
async function redraw(which) {
  for (const chart of which) {
    chart.waits = isFolded(chart);
    if (!chart.waits) stale.add(chart);
  }
  if (drawing) return;
  drawing = true;
  while (stale.size) {
    const chart = [...stale].find((one) => near.has(one)) ?? [...stale][0];
    stale.delete(chart);
    await draw(chart).catch((error) => {
      // The other charts are drawn all the same, and its table has its figures.
      console.error(`${chart.name}: ${error}`);
      noteOf(chart).textContent = `This chart could not be drawn: ${error.message}`;
    });
    await new Promise((done) => { if (near.has(chart)) setTimeout(done); else whenIdle(done); });
  }
  drawing = false;
  document.documentElement.dataset.drawn = charts.length;
}

/** Reserves the room of each chart, so that nothing jumps when it is drawn. */
for (const chart of charts) {
  const names = new Set(drawnOf(chart).map((one) => one.variant)).size;
  chart.place.style.minHeight = `${names * chart.stepPx[layoutOf(chart)] + 60}px`;
}
const watch = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    const chart = charts.find((one) => one.place === target);
    if (isIntersecting) near.add(chart); else near.delete(chart);
  }
}, { rootMargin: "300px" });
for (const chart of charts) watch.observe(chart.place);
const resized = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const chart = charts.find((one) => one.place.parentElement === target);
    if (chart.layout && chart.layout !== layoutOf(chart)) redraw([chart]);
    else if (chart.drawn) chart.drawn.view.width(chart.place.parentElement.clientWidth).runAsync();
  }
});
for (const chart of charts) resized.observe(chart.place.parentElement);

// What is folded away is drawn when it is unfolded.
for (const fold of document.querySelectorAll("details.fold")) {
  fold.addEventListener("toggle", () => { if (fold.open) redraw(charts.filter((one) => one.waits && fold.contains(one.place))); });
}
function unfold(target) {
  for (let place = target; place; place = place.parentElement) if (place.matches("details")) place.open = true;
  const own = target?.querySelector(":scope > details.fold");
  if (own) own.open = true;
}
const goTo = () => {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (target) { unfold(target); target.scrollIntoView(); }
};
addEventListener("hashchange", goTo);
addEventListener("beforeprint", () => { for (const fold of document.querySelectorAll("details.fold")) fold.open = true; });

// The heat map is in the page; here its rows are sorted and hidden, and a field says its figures.
const heat = document.querySelector(".heat");
const heatRows = [...heat.querySelectorAll("tbody tr")];
const fields = new Map((frames.ratios ?? []).map((record) => [`${record.variant} ${record.benchmark}`, record]));
const columns = [...heat.querySelectorAll(".benchmark")].map((head) => head.dataset.benchmark);
heat.addEventListener("pointerover", ({ target }) => {
  if (target.tagName !== "TD" || target.title || !target.closest("tbody")) return;
  const record = fields.get(`${target.parentElement.dataset.variant} ${columns[target.cellIndex - 1]}`);
  if (record) target.title = `${record.variant}, ${record.benchmark}: ${record.value_text}; ${record.text} ${record.said ?? record.state}`;
});
function fillHeat() {
  const rows = [...heatRows];
  if (wanted.best) rows.sort((first, second) => compare(report.means[first.dataset.variant], report.means[second.dataset.variant]));
  heat.querySelector("tbody").append(...rows);
  document.querySelector("[data-heat-note]").textContent = rows.some((row) => isShown(row.dataset.variant)) ? "" : "No row is left: clear a filter.";
  document.querySelector(".scrolls").hidden = heat.scrollWidth <= heat.clientWidth + 1;
}
new ResizeObserver(fillHeat).observe(heat);
for (const table of document.querySelectorAll(".grid:not(.heat) table")) makeSortable(table);

const filter = document.getElementById("filter");
const order = document.getElementById("order");
const all = document.getElementById("all");
function apply() {
  wanted.words = filter.value.toLowerCase().split(/[\s,]+/).filter(Boolean);
  wanted.best = order.value === "best";
  wanted.all = Boolean(all?.checked);
  for (const row of document.querySelectorAll("tr[data-variant]")) row.hidden = !isShown(row.dataset.variant);
  fillHeat();
  document.getElementById("shown").textContent = `${report.variants.filter(isShown).length} of ${report.variants.length}`;
  redraw(charts);
}
let typing = null;
filter.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(apply, 120); });
order.addEventListener("change", apply);
all?.addEventListener("change", apply);
document.getElementById("copy").addEventListener("click", async ({ target }) => {
  await navigator.clipboard.writeText(document.getElementById("command").textContent);
  target.textContent = "Copied";
});
apply();
goTo();
document.documentElement.dataset.ready = Math.round(performance.now());
