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
async function redraw(which) {
  for (const chart of which) stale.add(chart);
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
    await new Promise((done) => { if (near.has(chart)) setTimeout(done); else (window.requestIdleCallback ?? setTimeout)(done); });
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

// A table that is folded away is made when it is first opened.
for (const place of document.querySelectorAll("[data-table]")) {
  const folded = place.closest("details");
  if (!folded) tables.push(new Table(place));
  else folded.addEventListener("toggle", () => { if (folded.open && !place.children.length) tables.push(new Table(place)); });
}

const filter = document.getElementById("filter");
const order = document.getElementById("order");
function apply() {
  wanted.words = filter.value.toLowerCase().split(/[\s,]+/).filter(Boolean);
  wanted.best = order.value === "best";
  document.getElementById("shown").textContent = `${report.variants.filter(isShown).length} of ${report.variants.length}`;
  for (const table of tables) table.fill();
  redraw(charts);
}
let typing = null;
filter.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(apply, 120); });
order.addEventListener("change", apply);
document.getElementById("copy").addEventListener("click", async ({ target }) => {
  await navigator.clipboard.writeText(document.getElementById("command").textContent);
  target.textContent = "Copied";
});
redraw(charts);
document.documentElement.dataset.ready = Math.round(performance.now());
