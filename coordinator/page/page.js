// The page asks for status.json every second and draws it anew.
const POLL_MS = 1000;
const SILENT_S = 3;
const EDGES_MAX = 120;
let last = null;      // the newest status
let answeredAt = 0;   // when it came

function phaseKind(status) {
  if (status.phase === "ended") return !status.exit || status.exit.code === 0 ? "ok" : "bad";
  if (status.ending) return status.ending.code === 143 ? "busy" : "bad";
  if (status.waiting) return "busy";
  return status.phase === "training" || status.phase === "evaluating" ? "go" : "busy";
}

function phaseText(status) {
  if (status.ending) return status.ending.code === 143 ? "stopping" : "failing";
  if (status.phase !== "ended" || !status.exit) return status.phase;
  if (status.exit.code === 0) return "done";
  return status.exit.code === 143 ? "stopped" : "failed";
}

function drawHead(status) {
  document.title = status.job + " – " + phaseText(status);
  document.getElementById("job").textContent = status.job;
  const pill = document.getElementById("phase");
  pill.textContent = phaseText(status);
  pill.className = "pill " + phaseKind(status);
  const share = status.batches ? Math.min(1, status.batches_done / status.batches) : 0;
  const bar = document.getElementById("bar");
  bar.firstElementChild.style.width = 100 * share + "%";
  bar.setAttribute("aria-valuenow", Math.round(100 * share));
  const words = [];
  if (status.epochs) words.push(`epoch ${status.epoch} of ${status.epochs}`);
  if (status.batches) {
    words.push(`${status.batches_done.toLocaleString("en")} of ` +
      `${status.batches.toLocaleString("en")} batches (${Math.floor(100 * share)} %)`);
  }
  if (status.seconds_left !== undefined) {
    words.push(`${status.seconds_left < 1 ? "" : "about "}${timeText(status.seconds_left)} left`);
  }
  if (status.wall_seconds) words.push(`${timeText(status.wall_seconds)} so far`);
  document.getElementById("progress").textContent = words.join(" · ") || "The job begins.";
}

function drawNotice(status, silentS) {
  const notice = document.getElementById("notice");
  let text = "", kind = "";
  const ended = status && status.phase === "ended";
  if (ended && status.exit) {
    kind = phaseKind(status);
    text = `The job has ended with exit code ${status.exit.code}: ${status.exit.reason}.`;
  } else if (silentS >= SILENT_S) {
    kind = "bad";
    text = `The coordinator has not answered for ${timeText(silentS)}: it has ended, is being ` +
      "restarted, or cannot be reached." + (status ? " This is what it said last." : "");
  } else if (status && status.ending) {
    kind = phaseKind(status);
    text = `The job is ending with exit code ${status.ending.code}: ${status.ending.reason}. ` +
      "A checkpoint is taken first.";
  } else if (status && status.healthy === false) {
    kind = "bad";
    text = "Some parameters are not finite: the job has diverged.";
  } else if (status && status.waiting) {
    text = "Waiting: " + status.waiting;
  } else if (status && status.checkpoint && status.checkpoint.problem) {
    text = "The last checkpoint failed: " + status.checkpoint.problem;
  }
  notice.textContent = text;
  notice.className = kind;
  notice.hidden = !text;
  document.body.className = silentS >= SILENT_S && !ended ? "stale" : "";
}

function tile(title, value, kind) {
  return make("div", {class: "tile " + (kind || "")}, make("span", {}, title),
    make("b", {}, value));
}

function newest(history, name) {
  const all = history && history[name] || [];
  return all.length ? all[all.length - 1] : null;
}

function drawTiles(status) {
  const ps = status.ps || [], workers = status.workers || [];
  const ready = ps.filter((p) => p.state === "ready").length;
  const recoveries = status.recoveries || {};
  const point = status.checkpoint || {};
  const age = point.created_unix_ms ? (status.unix_ms - point.created_unix_ms) / 1000 : null;
  const late = point.every_seconds > 0 && age > 2 * point.every_seconds &&
    status.phase === "training";
  fill("tiles",
    tile("loss", number(status.loss)),
    tile("samples / s", number(status.samples_per_second)),
    tile("staleness", number(newest(status.history, "cluster/staleness"))),
    tile("workers", workers.length, workers.length || status.phase === "ended" ? "" : "busy"),
    tile("ps ready", `${ready} of ${ps.length}`, ready < ps.length ? "bad" : ""),
    tile("checkpoint age", age === null ? "none yet" : timeText(Math.max(age, 0)),
      late || point.problem ? "bad" : ""),
    tile("recoveries", (recoveries.ps || 0) + (recoveries.worker || 0) +
      (recoveries.coordinator || 0)),
    tile("rejected", status.rejected || 0, status.rejected ? "bad" : ""));
}

function drawCurves(status) {
  const history = status.history || {step: []};
  const all = (name) => history[name] || history.step.map(() => null);
  const charts = [
    curve("training loss, by batch", history.step, all("train/loss"), 0, false),
    curve("samples per second, by batch", history.step, all("cluster/samples_per_second"), 1, true),
    curve("staleness, by batch", history.step, all("cluster/staleness"), 3, true)];
  const evaluations = status.evaluations || [];
  const names = [...new Set(evaluations.flatMap((e) => Object.keys(e.metrics)))].slice(0, 9);
  names.forEach((name, i) => charts.push(curve(`test ${name}, by epoch`,
    evaluations.map((e) => e.epoch), evaluations.map((e) => e.metrics[name] ?? null),
    (i + 2) % 6, false)));
  fill("curves", ...charts);
}

function psKind(ps) {
  if (ps.state === "away" || ps.silent_seconds > SILENT_S) return "bad";
  return ps.state === "ready" ? "ok" : "busy";
}

function workerKind(worker) {
  if (worker.silent_seconds > SILENT_S) return "bad";
  return worker.resting || worker.waits_for ? "busy" : "ok";
}

function psDetail(ps) {
  if (ps.state === "away") return "away" + (ps.away_seconds ? " " + timeText(ps.away_seconds) : "");
  if (ps.silent_seconds > SILENT_S) return "silent " + timeText(ps.silent_seconds);
  return ps.state === "ready" ? bytesText(ps.bytes) : ps.state;
}

function workerDetail(worker) {
  if (worker.silent_seconds > SILENT_S) return "silent " + timeText(worker.silent_seconds);
  if (worker.waits_for) return "waits";
  if (worker.resting) return "rests";
  return number(worker.samples_per_second) + "/s";
}

function drawCluster(status) {
  const ps = status.ps || [], workers = status.workers || [];
  const rows = [
    [{name: "coordinator", kind: phaseKind(status) === "bad" ? "bad" : "ok", detail: status.phase,
      title: "leads generation " + status.generation}],
    ps.map((p) => ({name: p.task, kind: psKind(p), detail: psDetail(p),
      title: `${p.address}: ${p.state}${p.problem ? ", " + p.problem : ""}`})),
    workers.map((w) => ({name: w.task, kind: workerKind(w), detail: workerDetail(w),
      title: `${w.device}${w.waits_for ? ", waits for " + w.waits_for : ""}`}))];
  const edges = [];
  const many = workers.length * ps.length > EDGES_MAX;
  for (const p of ps) {
    const waits = (status.waiting || "").startsWith(p.task + " ") || p.state === "away";
    if (waits || ps.length <= 24) edges.push({from: "coordinator", to: p.task, waits});
  }
  for (const w of workers) {
    for (const p of ps) {
      const waits = (w.waits_for || "").split(/[^a-z:0-9]/).includes(p.task);
      if (waits || !many) edges.push({from: w.task, to: p.task, waits});
    }
  }
  edges.sort((a, b) => a.waits - b.waits);
  const width = Math.max(250, document.getElementById("cluster").clientWidth);
  fill("cluster", clusterPicture(rows.filter((row) => row.length), edges, width));
}

function drawPartitions(status) {
  const ps = status.ps || [];
  const most = Math.max(1, ...ps.map((p) => p.bytes));
  const rows = [];
  for (const p of ps) {
    const shown = p.largest || [];
    const sum = shown.reduce((all, part) => all + part.bytes, 0);
    // Optimizers keep slots beside the values, which `bytes` has and the partitions' sizes do not.
    const whole = Math.max(p.bytes, sum, 1);
    rows.push(make("div", {class: "row"}, make("b", {}, p.task),
      make("span", {}, `${p.partitions} partitions, ${bytesText(p.bytes)} with slots`)));
    const stack = make("div", {class: "stack", style: `width: ${Math.max(2, 100 * whole / Math.max(most, whole))}%`});
    shown.forEach((part, i) => stack.append(make("i", {title: `${part.name}: ${bytesText(part.bytes)}`,
      style: `width: ${100 * part.bytes / whole}%; background: var(--c${i % 6})`})));
    rows.push(stack);
    if (shown.length) {
      rows.push(make("p", {class: "legend"}, "largest values: " + shown.slice(0, 3).map(
        (part) => `${part.name} (${bytesText(part.bytes)})`).join(", ") + "; grey: others and slots"));
    }
  }
  fill("partitions", ...(rows.length ? rows : [make("p", {}, "There are none yet.")]));
}

function drawCheckpoint(status) {
  const point = status.checkpoint || {};
  const rows = [["newest", point.last || "none yet"]];
  if (point.created_unix_ms) {
    rows.push(["made", new Date(point.created_unix_ms).toLocaleString()]);
    rows.push(["size", bytesText(point.bytes)]);
  }
  if (point.seconds !== undefined) rows.push(["it took", point.seconds.toFixed(2) + " s"]);
  if (point.every_seconds !== undefined) {
    rows.push(["every", point.every_seconds ? timeText(point.every_seconds) : "at the end only"]);
  }
  if (point.count !== undefined) rows.push(["written", point.count]);
  rows.push(["now", point.running ? "one is being written" : "none is being written"]);
  if (point.problem) rows.push(["problem", point.problem]);
  for (const [name, why] of Object.entries(point.refused || {})) rows.push([name, "refused: " + why]);
  fill("checkpoint", ...rows.flatMap(([key, value]) => [make("dt", {}, key), make("dd", {}, value)]));
}

function drawTasks(status) {
  const cell = (text, kind) => make("td", {class: kind || ""}, text);
  const head = make("tr", {}, ...["task", "state", "work", "staleness", "last heard", "note"].map(
    (name) => make("th", {scope: "col"}, name)));
  const heard = (task) => task.silent_seconds === undefined ? "never" :
    task.silent_seconds < 1.5 ? "now" : timeText(task.silent_seconds) + " ago";
  const rows = [head];
  for (const p of status.ps || []) {
    rows.push(make("tr", {}, cell(p.task), cell(p.state, psKind(p)),
      cell(`${p.partitions} partitions, ${bytesText(p.bytes)}`), cell("–"), cell(heard(p)),
      cell(p.problem || (p.waiting_exchanges ? `${p.waiting_exchanges} exchanges wait for readers` : ""))));
  }
  for (const w of (status.workers || []).slice(0, 256)) {
    rows.push(make("tr", {}, cell(w.task),
      cell(w.silent_seconds > SILENT_S ? "silent" : w.resting ? "resting" : w.waits_for ? "waiting" : w.leases ? "computing" : "idle", workerKind(w)),
      cell(`${w.computed.toLocaleString("en")} batches, ${number(w.samples_per_second)} samples/s, ${w.device}`),
      cell(number(w.staleness)), cell(heard(w)), cell(w.waits_for ? "waits for " + w.waits_for : "")));
  }
  for (const [task, why] of Object.entries(status.refused || {})) {
    rows.push(make("tr", {}, cell(task), cell("refused", "bad"), cell("–"), cell("–"), cell("–"), cell(why)));
  }
  fill("tasks", ...rows);
}

function drawEvents(status) {
  const events = (status.events || []).slice().reverse();
  const shown = events.map((event) => make("li", {class: event.level},
    make("time", {}, new Date(event.unix_ms).toLocaleTimeString()), make("span", {}, event.text)));
  fill("events", ...(shown.length ? shown : [make("li", {}, "Nothing has happened yet.")]));
}

function draw(status) {
  // The coordinator names workers in the order in which they came.
  (status.workers || []).sort((a, b) => a.task.localeCompare(b.task, "en", {numeric: true}));
  drawHead(status);
  drawTiles(status);
  drawCurves(status);
  drawCluster(status);
  drawPartitions(status);
  drawCheckpoint(status);
  drawTasks(status);
  drawEvents(status);
  document.getElementById("about").textContent =
    `${status.dir || ""}${status.run_id ? " · run " + status.run_id : ""} · generation ` +
    `${status.generation ?? "–"}`;
}

const opened = Date.now();
async function poll() {
  try {
    if (!document.hidden) {
      const reply = await fetch("status.json", {cache: "no-store", signal: AbortSignal.timeout(4000)});
      if (!reply.ok) throw new Error(reply.status);
      last = await reply.json();
      answeredAt = Date.now();
      draw(last);
    }
  } catch (error) {
    // The notice says since when there is no answer.
  }
  drawNotice(last, document.hidden ? 0 : (Date.now() - (answeredAt || opened)) / 1000);
  setTimeout(poll, POLL_MS);
}
poll();
window.addEventListener("resize", () => { if (last) drawCluster(last); });
