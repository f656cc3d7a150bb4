"use strict";
// The figures behind the charts as tables: sorted by a column's button, filtered by the page's field and by fields of their own.
const report = JSON.parse(window.reportText);
const unpack = ({ columns, rows }) => rows.map((row) => Object.fromEntries(columns.map((key, index) => [key, row[index]])));
const frames = Object.fromEntries(Object.entries(report.frames).map(([name, frame]) => [name, unpack(frame)]));
const wanted = { words: [], best: false, all: false };
const asides = new Set(report.asides);
const ROWS_AT_ONCE = 300;

/** Words name what they name; without any, rows that are not about what to run are shown only if they are asked for. */
const isShown = (name) => (wanted.words.length === 0 ? wanted.all || !asides.has(name) : wanted.words.some((word) => name.includes(word)));
const recordsOf = ({ frame, where, row }) =>
  frames[frame].filter((one) => Object.entries(where).every(([key, value]) => one[key] === value) && (row !== "variant" || isShown(one.variant)));

function element(tag, properties, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

/** Three significant digits, without an exponent. */
function figure(number) {
  if (number === null || number === undefined) return "-";
  const digits = number === 0 ? 0 : Math.max(0, 2 - Math.floor(Math.log10(Math.abs(number))));
  return number.toLocaleString("en", { maximumFractionDigits: Math.min(digits, 20) });
}

const shares = new Intl.NumberFormat("en", { style: "percent", maximumFractionDigits: 1 });
const shownAs = { number: figure, share: (share) => shares.format(share) };
/** What a column is sorted by, where that differs from what it shows. */
const sortedBy = {
  ratio: (one) => one.ratio,
  value: (one) => one.value,
  control: (one) => one.control,
  bin: (one) => one.log2,
  // The figure is followed by its spread or interval.
  "text-number": (one, key) => (one[key] === "-" ? null : Number.parseFloat(one[key].replaceAll(",", ""))),
};

function compare(one, other) {
  if (one === other) return 0;
  if (one === null || one === undefined) return 1;
  if (other === null || other === undefined) return -1;
  return typeof one === "string" ? one.localeCompare(other, "en", { numeric: true }) : one - other;
}

class Table {
  constructor(place) {
    this.place = place;
    this.definition = report.tables[place.dataset.table];
    this.sort = null;
    this.all = false;
    this.chosen = {};
    this.search = "";
    this.build();
  }

  build() {
    const { choose = [], search } = this.definition;
    const choices = element("div", { className: "choices" });
    for (const key of choose) choices.append(this.chooser(key));
    if (search) choices.append(this.searcher(search));
    if (choices.children.length) this.place.append(choices);
    this.heads = this.definition.columns.map((column) => this.head(column));
    this.body = element("tbody");
    const caption = element("caption", {}, this.place.dataset.title);
    const table = element("table", {}, caption, element("thead", {}, element("tr", {}, ...this.heads)), this.body);
    const grid = element("div", { className: "grid", tabIndex: 0, role: "region", ariaLabel: `${this.place.dataset.title}, table` }, table);
    this.rest = element("p", { className: "note", role: "status" });
    this.place.append(grid, this.rest);
    this.fill();
  }

  chooser(key) {
    const values = [...new Set(frames[this.definition.frame].map((one) => one[key]))];
    this.chosen[key] = values[0];
    const select = element("select", {}, ...values.map((value) => element("option", { value }, value)));
    select.addEventListener("change", () => { this.chosen[key] = select.value; this.fill(); });
    return element("label", {}, `${key} `, select);
  }

  searcher(key) {
    const input = element("input", { type: "search", placeholder: "futex", autocomplete: "off", spellcheck: false });
    input.addEventListener("input", () => { this.search = input.value.trim().toLowerCase(); this.fill(); });
    return element("label", {}, `${key} `, input);
  }

  head([key, title, kind]) {
    const button = element("button", { type: "button" }, title);
    const head = element("th", { scope: "col", className: kind }, button);
    button.addEventListener("click", () => {
      const again = this.sort && this.sort.key === key;
      this.sort = { key, kind, down: again ? !this.sort.down : false };
      for (const one of this.heads) one.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", this.sort.down ? "descending" : "ascending");
      this.fill();
    });
    return head;
  }

  records() {
    const { search } = this.definition;
    let found = recordsOf(this.definition).filter((one) => Object.entries(this.chosen).every(([key, value]) => one[key] === value));
    if (search && this.search) found = found.filter((one) => one[search].includes(this.search));
    if (this.sort) {
      const { key, kind, down } = this.sort;
      const by = sortedBy[kind] || ((one) => one[key]);
      const missing = (one) => one === null || one === undefined;
      // Rows without a figure come last in either direction.
      found = found.map((one) => [by(one, key), one]).sort(([a], [b]) => (down && !missing(a) && !missing(b) ? compare(b, a) : compare(a, b))).map(([, one]) => one);
    }
    return found;
  }

  fill() {
    const found = this.records();
    const shown = this.all ? found : found.slice(0, ROWS_AT_ONCE);
    this.body.replaceChildren(...shown.map((one) => this.row(one)));
    this.rest.replaceChildren();
    if (found.length === 0) this.rest.append("No row is left: clear a filter.");
    if (shown.length < found.length) {
      const more = element("button", { type: "button" }, `Show all ${found.length} rows`);
      more.addEventListener("click", () => { this.all = true; this.fill(); });
      this.rest.append(more);
    }
  }

  row(one) {
    const cells = this.definition.columns.map(([key, , kind], index) => {
      const text = (shownAs[kind] || ((value) => value ?? "-"))(one[key]);
      return index === 0 ? element("th", { scope: "row" }, text) : element("td", { className: kind }, text);
    });
    return element("tr", {}, ...cells);
  }
}
