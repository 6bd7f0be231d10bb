// The page asks for status.json every second and draws what has changed.
const POLL_MS = 1000;
const SILENT_S = 3;
const CERTIFICATE_DAYS = 14;
let last = null;      // the newest status
let answeredAt = 0;   // when it came
let byTime = false;   // the curves' axis

function phaseKind(status) {
  if (status.phase === "ended") return !status.exit || status.exit.code === 0 ? "ok" : "bad";
  if (status.ending) return status.ending.code === 143 ? "busy" : "bad";
  if (status.waiting) return "busy";
  return status.phase === "training" || status.phase === "evaluating" ? "go" : "busy";
}

// Whom training waits for, shortly; "" if for nobody.
function awaitedTasks(status) {
  if (!status.waiting || !status.ps) return "";
  const away = status.ps.filter((p) => p.state === "away" || p.silent_seconds > SILENT_S);
  if (away.length) {
    return away.slice(0, 3).map((p) => p.task).join(", ") + (away.length > 3 ? ", ..." : "");
  }
  return (status.workers || []).length ? "" : "a worker";
}

function silentWorkers(status) {
  return (status.workers || []).filter((w) => w.silent_seconds > SILENT_S && status.phase !== "ended");
}

function phaseText(status) {
  if (status.ending) return status.ending.code === 143 ? "stopping" : "failing";
  if (status.phase !== "ended" || !status.exit) {
    const awaited = awaitedTasks(status);
    return awaited ? "waiting for " + awaited : status.phase;
  }
  if (status.exit.code === 0) return "done";
  return status.exit.code === 143 ? "stopped" : "failed";
}

function roundsText(rounds) {
  const words = [`round ${rounds.round.toLocaleString("en")} of ` +
    rounds.rounds.toLocaleString("en")];
  if (rounds.waits_for) words.push("waits for " + rounds.waits_for);
  if (rounds.seconds_a_round) {
    words.push(`${Number(rounds.seconds_a_round.toPrecision(2))} s a round`);
  }
  if (rounds.waited_share >= 0.005) {
    words.push(`workers wait ${Math.round(100 * rounds.waited_share)} % of the time`);
  }
  if (rounds.rollbacks) words.push(`back to a checkpoint ${rounds.rollbacks}×`);
  return words.join(", ");
}

function drawHead(status) {
  document.title = status.job + " – " + phaseText(status);
  say(document.getElementById("job"), status.job);
  const pill = document.getElementById("phase");
  say(pill, phaseText(status));
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
  if (status.strategy) words.push(`${status.strategy.name} (${status.strategy.why})`);
  if (status.rounds) words.push(roundsText(status.rounds));
  if (status.seconds_left !== undefined) {
    words.push(`${status.seconds_left < 1 ? "" : "about "}${timeText(status.seconds_left)} left`);
  }
  if (status.wall_seconds) words.push(`${timeText(status.wall_seconds)} so far`);
  say(document.getElementById("progress"), words.join(" · ") || "The job begins.");
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
  } else if (status && silentWorkers(status).length) {
    text = silentWorkers(status).slice(0, 5).map((w) =>
      `${w.task} has been silent for ${timeText(w.silent_seconds)}`).join("; ") +
      ": stopped, or cut off from the coordinator.";
  } else if (status && status.checkpoint && status.checkpoint.problem) {
    text = "The last checkpoint failed: " + status.checkpoint.problem;
  } else if (status && status.untaken) {
    text = "The job goes on as it was; not taken from the job file: " + status.untaken.join("; ");
  } else if (status && status.certificate && status.certificate.days_left < CERTIFICATE_DAYS) {
    text = `The coordinator's certificate ${certificateText(status)}: replace it.`;
  }
  say(notice, text);
  notice.className = kind;
  notice.hidden = !text;
  document.body.className = silentS >= SILENT_S && !ended ? "stale" : "";
}

function certificateText(status) {
  const days = status.certificate.days_left;
  return days < 0 ? `expired ${timeText(-days * 86400)} ago` : `holds for ${Math.floor(days)} days`;
}

function tile(title, value, kind, note) {
  return make("div", {class: "tile " + (kind || "")}, make("span", {}, title),
    make("b", {}, value), make("small", {}, note || ""));
}

function newest(curves, name) {
  const all = curves && curves[name] || [];
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
  const ended = status.phase === "ended";
  const idle = status.last_batch_seconds;
  const tiles = [
    tile("loss", number(status.loss)),
    tile("samples / s", number(status.samples_per_second), "",
      !ended && idle > SILENT_S ? `no batch for ${timeText(idle)}` : ""),
    tile("staleness", number(newest(status.curves, "cluster/staleness"))),
    tile("workers", workers.length, workers.length ? "" : "busy"),
    tile("ps ready", `${ready} of ${ps.length}`, ready < ps.length ? "bad" : ""),
    tile("checkpoint age", age === null ? "none yet" : timeText(Math.max(age, 0)),
      late || point.problem ? "bad" : ""),
    tile("recoveries", (recoveries.ps || 0) + (recoveries.worker || 0) +
      (recoveries.coordinator || 0)),
    tile("rejected", status.rejected || 0, status.rejected ? "bad" : "")];
  if (ended) tiles.forEach((each) => each.setAttribute("class", "tile gone"));
  fill("tiles", ...tiles);
}

function drawCurves(status) {
  const curves = status.curves || {step: [], unix_ms: []};
  const all = (name) => curves[name] || curves.step.map(() => null);
  const xs = byTime ? curves.unix_ms.map((ms) => ms / 1000) : curves.step;
  const xText = byTime ? (s) => new Date(s * 1000).toLocaleTimeString("en-GB") : tickText;
  const by = byTime ? "by time" : "by batch";
  const charts = [
    curve("training loss, " + by, xs, all("train/loss"), 0, false, xText),
    curve("samples per second, " + by, xs, all("cluster/samples_per_second"), 1, true, xText),
    curve("staleness, " + by, xs, all("cluster/staleness"), 3, true, xText)];
  const evaluations = status.evaluations || [];
  const names = [...new Set(evaluations.flatMap((e) => Object.keys(e.metrics)))].slice(0, 9);
  names.forEach((name, i) => charts.push(curve(`test ${name}, by epoch`,
    evaluations.map((e) => e.epoch), evaluations.map((e) => e.metrics[name] ?? null),
    (i + 2) % 6, false)));
  fill("curves", ...charts);
}

function psKind(ps) {
  if (last && last.phase === "ended") return "gone";
  if (ps.state === "away" || ps.silent_seconds > SILENT_S) return "bad";
  return ps.state === "ready" ? "ok" : "busy";
}

function workerKind(worker) {
  if (last && last.phase === "ended") return "gone";
  if (worker.silent_seconds > SILENT_S) return "bad";
  return worker.resting || worker.waits_for ? "busy" : "ok";
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
    const held = Object.entries(p.memory || {}).filter(([, part]) => part.bytes > 0 || part.bytes_max > 0);
    if (held.length) {
      rows.push(make("p", {class: "legend"}, "memory: " + held.map(([holder, part]) => holder + " " +
        bytesText(part.bytes) + (part.bytes_max ? " of " + bytesText(part.bytes_max) : "")).join(", ")));
    }
    if (shown.length) {
      rows.push(make("p", {class: "legend"}, "largest values: " + shown.slice(0, 3).map(
        (part) => `${part.name} (${bytesText(part.bytes)})`).join(", ") + "; grey: others and slots"));
    }
  }
  fill("partitions", ...(rows.length ? rows : [make("p", {}, "There are none yet.")]));
}

// What grows by the ids that come: the share of a hot id is that of the pushes that name it.
function drawTables(status) {
  const tables = Object.entries(status.tables || {});
  document.getElementById("growing").hidden = !tables.length;
  const count = (value) => (value || 0).toLocaleString("en");
  const cell = (text) => make("td", {}, text);
  const rows = [make("tr", {}, ...["table", "rows", "memory", "pulled", "pushed", "admitted", "expired",
    "evicted", "dropped", "hot ids (share of the pushes)"].map((name) => make("th", {scope: "col"}, name)))];
  for (const [name, table] of tables) {
    const hot = (table.hot_ids || []).map((id) => `${id.id} (${Math.round(100 * id.share)} %)`);
    rows.push(make("tr", {}, cell(name), cell(count(table.rows)), cell(bytesText(table.bytes)),
      cell(number(table.pulled_rows_per_second) + " rows/s"),
      cell(number(table.pushed_rows_per_second) + " rows/s"), cell(count(table.admitted)),
      cell(count(table.expired)), cell(count(table.evicted)), cell(count(table.dropped)),
      cell(hot.join(", ") || "–")));
  }
  fill("tables", ...rows);
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

// What a worker of a job in rounds has, and the part of its time in which it waits; else "".
function lanesText(worker) {
  if (worker.waited_share === undefined) return "";
  const waits = Math.round(100 * worker.waited_share);
  return `${worker.leases} ${worker.leases === 1 ? "lane" : "lanes"}, waits ${waits} % of the time, `;
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
      cell(p.node ? `in ${p.node}` : "–"), cell("–"), cell(heard(p)),
      cell(p.problem || (p.waiting_exchanges ? `${p.waiting_exchanges} exchanges wait for readers` : ""))));
  }
  for (const w of (status.workers || []).slice(0, 256)) {
    rows.push(make("tr", {}, cell(w.task),
      cell(w.silent_seconds > SILENT_S ? "silent" : w.resting ? "resting" : w.waits_for ? "waiting" : w.leases ? "computing" : "idle", workerKind(w)),
      cell(`${lanesText(w)}${w.computed.toLocaleString("en")} batches, ${number(w.samples_per_second)} samples/s, ${w.device}`),
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
  drawTables(status);
  drawPartitions(status);
  drawCheckpoint(status);
  drawTasks(status);
  drawEvents(status);
  say(document.getElementById("about"),
    `${status.dir || ""}${status.run_id ? " · run " + status.run_id : ""} · generation ` +
    `${status.generation ?? "–"}` +
    (status.certificate ? ` · the coordinator's certificate ${certificateText(status)}` : ""));
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
document.getElementById("axis").addEventListener("click", (event) => {
  byTime = !byTime;
  say(event.target, byTime ? "by batch" : "by time");
  if (last) drawCurves(last);
});
poll();
