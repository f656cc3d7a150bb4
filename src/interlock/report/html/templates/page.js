// Charts are drawn when they come near the window, and the rest when the browser has nothing else to do.
const NARROW_PX = 600;
const charts = [...document.querySelectorAll("[data-chart]")].map((place) => ({
  place, name: place.dataset.chart, ...report.charts[place.dataset.chart], layout: null, drawn: null,
}));
const tables = [];
const near = new Set();
const noteOf = (chart) => document.querySelector(`[data-note="${chart.name}"]`);
const layoutOf = (chart) => (chart.place.parentElement.clientWidth < NARROW_PX ? "narrow" : "wide");

const PX_A_LETTER = 6.6;

/** Returns the width of a chart; one that is wider than its place scrolls. */
const widthOf = (chart) => Math.max(chart.place.parentElement.clientWidth, chart.columns ? chart.columns.count * chart.columns.least_px : 0);

/** Returns whether the words of the columns have room to be horizontal. */
function lies(chart, rows) {
  const names = Math.max(...rows.map((one) => one[chart.row].length)) * PX_A_LETTER;
  return chart.layout === "wide" && (widthOf(chart) - names - 20) / chart.columns.count > chart.columns.lying_px;
}

/** Returns the records that a chart draws. */
const drawnOf = (chart) => recordsOf(chart).filter((one) => !chart.needs || one[chart.needs] !== null);

/** Returns a sentence about variants that the picture leaves out. */
function note(chart, count) {
  if (count === 0) return "Nothing to draw: no variant that is shown has a figure here.";
  const missing = new Set(recordsOf(chart).map((one) => one[chart.row])).size - count;
  return missing ? `${missing} variant${missing > 1 ? "s have" : " has"} no figure here.` : "";
}

/** Returns the chart's records, each with the order of its row. */
function ordered(chart) {
  const records = drawnOf(chart);
  const rank = new Map(report.variants.map((name, index) => [name, index]));
  const names = [...new Set(records.map((one) => one[chart.row]))];
  names.sort((one, other) => (rank.get(one) ?? 1e6) - (rank.get(other) ?? 1e6));
  if ((wanted.best && chart.row === "variant") || chart.bestFirst) {
    // Rows with many columns are sorted by the mean over all benchmarks.
    const own = chart.columns ? new Map() : new Map(records.map((one) => [one[chart.row], one.ratio]));
    const ratio = (name) => own.get(name) ?? report.means[name];
    names.sort((one, other) => compare(ratio(one), ratio(other)));
  }
  const order = new Map(names.map((name, index) => [name, index]));
  return { rows: records.map((one) => ({ ...one, order: order.get(one[chart.row]) })), count: names.length };
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
    width: widthOf(chart),
    datasets: { ...specification.datasets, rows },
    ...(chart.columns ? { params: [{ name: "lies", value: lies(chart, rows) }] } : {}),
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
  const names = new Set(drawnOf(chart).map((one) => one[chart.row])).size;
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
    if (chart.layout && (chart.columns || chart.layout !== layoutOf(chart))) redraw([chart]);
    else if (chart.drawn) chart.drawn.view.width(widthOf(chart)).runAsync();
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
const heatRows = [...(heat?.querySelectorAll("tbody tr") ?? [])];
const fields = new Map((frames.ratios ?? []).map((one) => [`${one.variant} ${one.benchmark}`, one]));
const benchmarksOfHeat = heat ? [...heat.querySelectorAll("thead tr:first-child th")].flatMap((one) => {
  const before = [...heat.querySelectorAll("thead tr:first-child th")].slice(0, [...heat.querySelectorAll("thead tr:first-child th")].indexOf(one)).reduce((sum, th) => sum + th.colSpan, 0);
  return [...heat.querySelectorAll("thead .benchmark")].slice(before, before + one.colSpan).map((th) => `${one.textContent} ${th.textContent}`);
}) : [];
heat?.addEventListener("pointerover", ({ target }) => {
  if (target.tagName !== "TD" || target.title || !target.closest("tbody")) return;
  const one = fields.get(`${target.parentElement.dataset.variant} ${benchmarksOfHeat[target.cellIndex - 1]}`);
  if (one) target.title = `${one.variant}, ${one.benchmark}: ${one.value_text}; ${one.text} ${one.said ?? one.state}`;
});
function fillHeat() {
  if (!heat) return;
  const rows = [...heatRows];
  if (wanted.best) rows.sort((one, other) => compare(report.means[one.dataset.variant], report.means[other.dataset.variant]));
  heat.querySelector("tbody").append(...rows);
  for (const row of rows) row.hidden = !isShown(row.dataset.variant);
  document.querySelector("[data-heat-note]").textContent = rows.every((row) => row.hidden) ? "No row is left: clear a filter." : "";
  document.querySelector(".scrolls").hidden = heat.scrollWidth <= heat.clientWidth + 1;
}
if (heat) new ResizeObserver(fillHeat).observe(heat);

// A table that is folded away is made when it is first opened.
for (const place of document.querySelectorAll("[data-table]")) {
  const folded = place.closest("details");
  if (!folded) tables.push(new Table(place));
  else folded.addEventListener("toggle", () => { if (folded.open && !place.children.length) tables.push(new Table(place)); });
}

const filter = document.getElementById("filter");
const order = document.getElementById("order");
const all = document.getElementById("all");
/** What is shown is in the address, so that it can be sent. */
function keepInAddress() {
  const words = new URLSearchParams();
  if (filter.value.trim()) words.set("show", filter.value.trim());
  if (order.value !== "name") words.set("rows", order.value);
  if (all?.checked) words.set("all", "yes");
  history.replaceState(null, "", `${location.pathname}${words.size ? `?${words}` : ""}${location.hash}`);
}
function takeFromAddress() {
  const words = new URLSearchParams(location.search);
  filter.value = words.get("show") ?? "";
  if (words.get("rows") === "best") order.value = "best";
  if (all) all.checked = words.get("all") === "yes";
}
function apply() {
  wanted.words = filter.value.toLowerCase().split(/[\s,]+/).filter(Boolean);
  wanted.best = order.value === "best";
  wanted.all = Boolean(all?.checked);
  keepInAddress();
  fillHeat();
  document.getElementById("shown").textContent = `${report.variants.filter(isShown).length} of ${report.variants.length}`;
  for (const table of tables) table.fill();
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
takeFromAddress();
apply();
goTo();
document.documentElement.dataset.ready = Math.round(performance.now());
