// Drawing: elements, numbers in words, curves and the picture of the cluster.
const SVG = "http://www.w3.org/2000/svg";

function make(name, attributes, ...children) {
  const svg = ["svg", "g", "path", "line", "rect", "text", "title"].includes(name);
  const element = svg ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
  element.append(...children.map((child) => child instanceof Node ? child : String(child)));
  return element;
}

// Makes `old` like `made` and keeps its nodes where it can, so that a selection, the focus and the
// pointer stay where they are while the page is drawn anew.
function morph(old, made) {
  if (old.nodeType !== made.nodeType || old.nodeName !== made.nodeName) return old.replaceWith(made);
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== made.data) old.data = made.data;
    return;
  }
  for (const {name} of [...old.attributes]) if (!made.hasAttribute(name)) old.removeAttribute(name);
  for (const {name, value} of made.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (made.points) old.points = made.points;
  morphChildren(old, [...made.childNodes]);
}

function morphChildren(old, made) {
  made.forEach((child, i) => {
    if (i < old.childNodes.length) morph(old.childNodes[i], child);
    else old.append(child);
  });
  while (old.childNodes.length > made.length) old.lastChild.remove();
}

function fill(id, ...children) { morphChildren(document.getElementById(id), children); }

function say(element, text) { if (element.textContent !== text) element.textContent = text; }

function bytesText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) { bytes /= 1024; ++unit; }
  return (unit && bytes < 100 ? bytes.toFixed(1) : Math.round(bytes)) + " " + units[unit];
}

function timeText(seconds) {
  if (seconds < 1) return "< 1 s";
  if (seconds < 90) return Math.round(seconds) + " s";
  const minutes = Math.round(seconds / 60);
  if (minutes < 90) return minutes + " min";
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return hours + " h " + minutes % 60 + " min";
  return Math.floor(hours / 24) + " d " + hours % 24 + " h";
}

function number(value) {
  if (value === null || value === undefined || !isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e6) return value.toExponential(2);
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  if (size >= 10) return value.toFixed(1);
  if (size === 0) return "0";
  return size < 0.001 ? value.toExponential(2) : value.toPrecision(4);
}

// Round values at even distances that cover low..high.
function ticks(low, high, count) {
  const rough = (high - low) / count || 1;
  const power = Math.pow(10, Math.floor(Math.log10(rough)));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const all = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step / 1e6; at += step) all.push(at);
  return all;
}

function tickText(value) {
  const size = Math.abs(value);
  if (size >= 1e9) return +(value / 1e9).toPrecision(3) + "G";
  if (size >= 1e6) return +(value / 1e6).toPrecision(3) + "M";
  if (size >= 1e4) return +(value / 1e3).toPrecision(3) + "k";
  return String(+value.toPrecision(4));
}

// One curve with its axes. Points without a value are gaps. The caption shows the newest value, or
// the one under the pointer.
function curve(title, xs, ys, color, fromZero, xText = tickText) {
  const width = 340, height = 150, left = 44, right = 8, top = 8, bottom = 20;
  const known = ys.map((y, i) => i).filter((i) => ys[i] !== null && isFinite(ys[i]));
  const newest = known.length ? number(ys[known[known.length - 1]]) : "–";
  const shown = make("b", {}, newest);
  const svg = make("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title});
  const figure = make("figure", {}, make("figcaption", {}, title, shown), svg);
  if (!known.length) {
    svg.append(make("text", {x: width / 2, y: height / 2, "text-anchor": "middle"}, "nothing yet"));
    return figure;
  }
  const values = known.map((i) => ys[i]);
  let low = Math.min(...values), high = Math.max(...values);
  if (fromZero) low = Math.min(0, low);
  if (high - low < 1e-12) { high += Math.abs(high) * 0.1 || 1; low -= fromZero ? 0 : Math.abs(low) * 0.1; }
  const first = xs[known[0]], last = Math.max(xs[known[known.length - 1]], first + 1);
  const px = (x) => left + (x - first) / (last - first) * (width - left - right);
  const py = (y) => top + (high - y) / (high - low) * (height - top - bottom);
  for (const y of ticks(low, high, 4)) {
    svg.append(make("line", {class: "grid", x1: left, x2: width - right, y1: py(y), y2: py(y)}),
      make("text", {x: left - 5, y: py(y) + 4, "text-anchor": "end"}, tickText(y)));
  }
  for (const x of ticks(first, last, 4)) {
    if (Math.round(x) !== x) continue;
    svg.append(make("text", {x: px(x), y: height - 5, "text-anchor": "middle"}, xText(x)));
  }
  let path = "", pen = "M";
  for (let i = 0; i < xs.length; ++i) {
    if (ys[i] === null || !isFinite(ys[i])) { pen = "M"; continue; }
    path += pen + px(xs[i]).toFixed(1) + " " + py(ys[i]).toFixed(1);
    if (pen === "M") path += "h.01";
    pen = "L";
  }
  svg.append(make("path", {class: known.length === 1 ? "curve dot" : "curve", d: path,
    style: `stroke: var(--c${color})`, "stroke-linecap": "round"}));
  svg.append(make("line", {class: "cross", y1: top, y2: height - bottom, visibility: "hidden"}));
  svg.points = known.map((i) => ({x: px(xs[i]), text: xText(xs[i]) + ": " + number(ys[i])}));
  svg.points.width = width;
  return figure;
}

// Shows the point of a curve that is nearest to the pointer, until the curve is drawn anew.
document.addEventListener("pointermove", (event) => {
  const svg = event.target.closest && event.target.closest("figure svg");
  if (!svg || !svg.points || !svg.points.length) return;
  const box = svg.getBoundingClientRect();
  const at = (event.clientX - box.left) / box.width * svg.points.width;
  const best = svg.points.reduce((a, b) => Math.abs(b.x - at) < Math.abs(a.x - at) ? b : a);
  say(svg.parentNode.querySelector("b"), best.text);
  const cross = svg.querySelector(".cross");
  for (const end of ["x1", "x2"]) cross.setAttribute(end, best.x);
  cross.setAttribute("visibility", "visible");
});
