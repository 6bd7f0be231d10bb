// Runs the page's scripts on what the core says of jobs: page_test.js CHARTS_JS PAGE_JS STATUSES
// STATUSES is a JSON object of statuses by name (status_page_test.cc). The document is a small one
// of our own, in which an element has its children, attributes and text.
"use strict";
const assert = require("assert");
const fs = require("fs");
const vm = require("vm");

class Node {
  constructor(name, nodeType) {
    Object.assign(this, {nodeName: name, nodeType, childNodes: [], parent: null, kept: new Map()});
  }
  static TEXT_NODE = 3;
  append(...children) {
    for (const child of children) {
      const node = child instanceof Node ? child : textNode(child);
      node.parent = this;
      this.childNodes.push(node);
    }
  }
  remove() { this.parent.childNodes.splice(this.parent.childNodes.indexOf(this), 1); }
  replaceWith(made) {
    made.parent = this.parent;
    this.parent.childNodes[this.parent.childNodes.indexOf(this)] = made;
  }
  setAttribute(name, value) { this.kept.set(name, String(value)); }
  getAttribute(name) { return this.kept.get(name) ?? null; }
  hasAttribute(name) { return this.kept.has(name); }
  removeAttribute(name) { this.kept.delete(name); }
  addEventListener(name, call) { this["on" + name] = call; }
  get attributes() { return [...this.kept].map(([name, value]) => ({name, value})); }
  get lastChild() { return this.childNodes[this.childNodes.length - 1]; }
  get firstElementChild() { return this.childNodes.find((child) => child.nodeType === 1); }
  get textContent() {
    return this.nodeType === Node.TEXT_NODE ? this.data :
      this.childNodes.map((child) => child.textContent).join("");
  }
  set textContent(text) { this.childNodes = []; this.append(text); }
  // What the tests look for: all elements of a name, below this one.
  all(name) {
    return this.childNodes.flatMap((child) =>
      [...(child.nodeName === name ? [child] : []), ...child.all(name)]);
  }
}

function textNode(text) {
  return Object.assign(new Node("#text", Node.TEXT_NODE), {data: String(text)});
}

function element(name) { return Object.assign(new Node(name, 1), {style: {}}); }

const byId = new Map();
const document = {
  title: "", body: element("body"), hidden: false, addEventListener() {},
  createElement: element,
  createElementNS: (_, name) => element(name),
  getElementById(id) {
    if (!byId.has(id)) byId.set(id, element(id));
    return byId.get(id);
  },
};
document.getElementById("bar").append(element("i"));
const page = vm.createContext({document, Node, console, setTimeout() {},
  fetch: () => new Promise(() => {}), AbortSignal: {timeout() {}}});
const [charts, script, statuses] = process.argv.slice(2).map(
  (path) => fs.readFileSync(path, "utf8"));
vm.runInContext(charts + script, page, {filename: "page.js"});
const status = JSON.parse(statuses);

const at = (id) => document.getElementById(id);
const pill = () => [at("phase").textContent, at("phase").className];
function show(name, silentS = 0) {
  page.shown = structuredClone(status[name]);
  vm.runInContext("last = shown; draw(shown);", page);
  page.drawNotice(page.shown, silentS);
}
// Value, note and class of a tile.
function tile(title) {
  const found = at("tiles").all("div").find((each) => each.all("span")[0].textContent === title);
  return [found.all("b")[0].textContent, found.all("small")[0].textContent,
    found.getAttribute("class")];
}
// The row of a task.
function row(task) {
  const found = at("tasks").all("tr").find((each) => each.childNodes[0].textContent === task);
  return found.childNodes.map((cell) => cell.textContent);
}

const tests = {
  "training": () => {
    show("training");
    assert.deepEqual(pill(), ["training", "pill go"]);
    assert.equal(document.title, "test – training");
    assert.equal(at("notice").hidden, true);
    assert.match(at("progress").textContent, /^epoch 1 of 2 · 20 of 800 batches \(2 %\)/);
    assert.equal(at("bar").getAttribute("aria-valuenow"), "3");
    assert.deepEqual(tile("ps ready"), ["2 of 2", "", "tile "]);
    assert.deepEqual(tile("rejected"), ["0", "", "tile "]);
    assert.equal(tile("samples / s")[1], "");
    assert.notEqual(tile("samples / s")[0], "0");
    assert.equal(row("worker:0")[1], "computing");
  },
  "a ps is away": () => {
    show("away");
    assert.deepEqual(pill(), ["waiting for ps:1", "pill busy"]);
    assert.match(at("notice").textContent, /^Waiting: .*ps:1/);
    assert.deepEqual(tile("ps ready"), ["1 of 2", "", "tile bad"]);
    // The rate is zero, and has its age.
    assert.equal(tile("samples / s")[0], "0");
    assert.match(tile("samples / s")[1], /^no batch for \d+ s$/);
    assert.equal(row("ps:1")[1], "away");
  },
  "a job that failed": () => {
    show("failed");
    assert.deepEqual(pill(), ["failed", "pill bad"]);
    const reason = status.failed.exit.reason;
    assert.match(reason, /failures.rejected_max/);
    assert.equal(at("notice").textContent, `The job has ended with exit code 1: ${reason}.`);
    assert.deepEqual([at("notice").className, at("notice").hidden], ["bad", false]);
    assert.deepEqual(tile("rejected"), ["1", "", "tile gone"]);
    assert.equal(tile("samples / s")[1], "");  // that nothing is computed any more is no news
    // The reason stays when the coordinator is gone, and the page is not greyed out as stale.
    show("failed", 60);
    assert.match(at("notice").textContent, /^The job has ended with exit code 1: /);
    assert.equal(document.body.className, "");
  },
  "a job that is done": () => {
    show("done");
    assert.deepEqual(pill(), ["done", "pill ok"]);
    assert.match(at("notice").textContent, /^The job has ended with exit code 0: /);
    assert.equal(at("notice").className, "ok");
    assert.equal(at("bar").getAttribute("aria-valuenow"), "100");
  },
  "a coordinator that is silent": () => {
    show("training", 5);
    assert.match(at("notice").textContent, /^The coordinator has not answered for 5 s: /);
    assert.equal(document.body.className, "stale");
  },
  "a worker that is silent": () => {
    show("silent");
    assert.equal(row("worker:0")[1], "silent");
    assert.match(at("notice").textContent,
      /^worker:0 has been silent for \d+ s: stopped, or cut off/);
  },
  "a ps says its partitions and bytes once": () => {
    show("training");
    const [ps] = status.training.ps;
    const text = `${ps.partitions} partitions`;
    assert.ok(ps.partitions > 0 && ps.bytes > 0);
    assert.equal(at("partitions").textContent.split(text).length, 3);  // of two ps, once each
    assert.ok(at("partitions").textContent.includes(`${text}, 1.2 MiB with slots`));
    assert.equal(at("tasks").textContent.includes("MiB"), false);
    assert.equal(at("tasks").textContent.includes("partitions"), false);
    assert.deepEqual(row("ps:0").slice(0, 3), ["ps:0", "ready", "–"]);
  },
  "curves have an axis of batches, and of time when asked": () => {
    show("curves");
    const captions = () => at("curves").all("figcaption").map(
      (each) => each.childNodes[0].textContent);
    const points = () => at("curves").all("svg")[0].points.map((point) => point.text);
    assert.deepEqual(captions(), ["training loss, by batch", "samples per second, by batch",
      "staleness, by batch", "test loss, by epoch"]);
    assert.deepEqual(points(), ["10: 4.000", "20: 2.000"]);
    at("axis").onclick({target: at("axis")});
    assert.equal(captions()[0], "training loss, by time");
    assert.equal(at("axis").textContent, "by batch");
    assert.deepEqual(points().map((text) => text.replace(/^\d\d:\d\d:/, "")),
      ["20: 4.000", "25: 2.000"]);
    at("axis").onclick({target: at("axis")});
    assert.equal(captions()[0], "training loss, by batch");
  },
  "what is drawn again stays the same nodes": () => {
    show("training");
    const before = at("tasks").all("tr");
    show("away");
    assert.ok(before.every((node, i) => node === at("tasks").all("tr")[i]));
  },
};
for (const [name, test] of Object.entries(tests)) {
  try {
    test();
  } catch (error) {
    console.log(`${name}: ${error.stack}`);
    process.exitCode = 1;
  }
}
console.log(`${Object.keys(tests).length} tests of the page`);
