/* What a page does by itself: live parts, charts, dialogs, keys, times. Without it every page still works. */
"use strict";
(() => {
  const body = document.body;
  const words = JSON.parse(body.dataset.words || "{}");

  // Times: the server says the exact one; here they only grow older.
  const UNITS = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];
  const relative = (seconds) => {
    const size = Math.abs(seconds);
    if (size < 1) return words.now;
    const [unit, length] = UNITS.find(([, least]) => size >= least);
    return words[seconds < 0 ? "in" : "ago"][unit].replace("{n}", String(Math.floor(size / length)));
  };
  const grow = () => {
    const today = Date.now() - skew;
    for (const time of document.querySelectorAll("time[data-rel]")) {
      time.textContent = relative((today - Date.parse(time.dateTime)) / 1000);
    }
  };
  // The browser's clock may be wrong; the page says when it was made.
  const skew = Date.now() - Date.parse(body.dataset.now);
  setInterval(grow, 5000);

  // Live parts: one stream for the page; each part is fetched anew at most every so often, and once more at the end.
  let now = "";
  const state = (name) => {
    now = name;
    const pulse = document.querySelector(".pulse");
    if (pulse && now && pulse.dataset.state !== now) { pulse.dataset.state = now; pulse.textContent = words[now]; }
  };
  const due = new Map();
  const refresh = (part) => {
    const wait = Number(part.dataset.every || 1000);
    const known = due.get(part.id) || { last: 0, timer: null };
    due.set(part.id, known);
    if (known.timer !== null) return;
    known.timer = setTimeout(() => {
      known.timer = null;
      known.last = Date.now();
      const current = document.getElementById(part.id);
      if (current && !document.querySelector("dialog[open]")) htmx.trigger(current, "live");
    }, Math.max(0, known.last + wait - Date.now()) + 50);
  };
  const hear = (event) => {
    const kind = event.type.split(".")[0];
    for (const part of document.querySelectorAll("[data-live]")) {
      const wanted = part.dataset.live.split(" ");
      if (wanted.includes(kind) || wanted.includes("*")) refresh(part);
    }
  };
  const everything = () => document.querySelectorAll("[data-live]").forEach(refresh);
  if (window.EventSource && document.querySelector("[data-live]")) {
    const source = new EventSource("/api/v1/events");
    let begun = false;
    source.onopen = () => { state("live"); if (begun) everything(); begun = true; };
    source.onerror = () => state("lost");
    source.addEventListener("gap", everything);
    for (const name of JSON.parse(body.dataset.kinds || "[]")) source.addEventListener(name, hear);
    window.addEventListener("pagehide", () => source.close());
    setInterval(everything, 30000);
  }

  // Who works with the keyboard keeps the place when a live part is replaced.
  const FOCUSABLE = "a[href], button, input, select, summary, textarea";
  let kept = null;
  body.addEventListener("htmx:beforeSwap", (event) => {
    const part = event.detail.target;
    const focused = document.activeElement;
    kept = part && part !== body && part.contains(focused)
      ? [part.id, [...part.querySelectorAll(FOCUSABLE)].indexOf(focused)] : null;
    const open = part ? [...part.querySelectorAll("details[open][id]")].map((each) => each.id) : [];
    opened = open;
  });
  let opened = [];
  body.addEventListener("htmx:afterSettle", (event) => {
    for (const id of opened) document.getElementById(id)?.setAttribute("open", "");
    opened = [];
    if (kept) document.getElementById(kept[0])?.querySelectorAll(FOCUSABLE)[kept[1]]?.focus({ preventScroll: true });
    kept = null;
    grow();
    state(now);
    draw(event.detail.elt.parentElement || document);
  });
  body.addEventListener("htmx:responseError", () => state("lost"));

  // A dialog asks before something dangerous; without script the same question is a page.
  const dialog = document.getElementById("dialog");
  body.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target === dialog && dialog.children.length) {
      dialog.showModal();
      (dialog.querySelector("input:not([type=hidden]), button.first") || dialog).focus();
    }
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-close]")) {
      const box = event.target.closest("dialog");
      if (box) { event.preventDefault(); box.close(); }
    }
    const gone = event.target.closest("[data-dismiss]");
    if (gone) gone.closest(".toast").remove();
  });
  dialog?.addEventListener("close", () => { dialog.replaceChildren(); everything(); });
  for (const toast of document.querySelectorAll(".toast.ok")) setTimeout(() => toast.remove(), 9000);

  // Charts. The numbers also stand in a table beside each.
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const clock = (seconds, step) => new Date(seconds * 1000).toLocaleString(document.documentElement.lang, step >= 86400
    ? { month: "numeric", day: "numeric" }
    : { hour: "2-digit", minute: "2-digit", hour12: false, ...(step < 60 ? { second: "2-digit" } : {}) });
  const draw = (within) => {
    for (const place of within.querySelectorAll("[data-chart]")) {
      if (place.childElementCount) continue;
      const data = JSON.parse(place.dataset.chart);
      // A day stands for itself, in UTC: the browser's zone must not move it.
      const half = 43200, day = (seconds) => new Date(seconds * 1000).toLocaleDateString(document.documentElement.lang, { timeZone: "UTC", month: "numeric", day: "numeric" });
      const daily = data.daily ? { incrs: [1, 2, 3, 7, 14, 30, 91, 182, 365].map((days) => days * 86400), space: 60, size: 30 } : {};
      const bars = data.kind === "bars" ? uPlot.paths.bars({ size: [0.7, 40] }) : undefined;
      const axis = { stroke: colour("muted"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, font: "12px system-ui" };
      const plot = new uPlot({
        width: place.clientWidth, height: place.clientHeight - 30, padding: [8, 8, 0, 0],
        cursor: { y: false }, legend: { live: true },
        ...(data.daily ? { tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC") } : {}),
        scales: {
          ...(data.daily ? { x: { range: (_, low, high) => data.x.length === 1 ? [data.x[0] - half, data.x[0] + half] : [low - half, high + half] } } : {}),
          y: { range: (_, low, high) => [Math.min(0, low), data.most ?? (high > 0 ? high * 1.1 : 1)] },
        },
        axes: [
          { ...axis, space: 70, ...daily, values: (_, times, __, ___, step) => times.map((time) => data.daily ? day(time) : clock(time, step)) },
          { ...axis, size: 46, ...(data.unit ? { label: data.unit, labelSize: 20, labelFont: "12px system-ui" } : {}) },
        ],
        series: [{ label: data.daily ? words.day : words.time, value: (_, v) => v === null ? "" : data.daily ? day(v) : new Date(v * 1000).toLocaleString(document.documentElement.lang) },
          ...data.series.map((line) => ({
            label: line.label, stroke: colour(line.tone), width: 2, points: { show: data.x.length < 40, size: 5 },
            fill: bars ? colour(line.tone) : undefined, paths: bars, spanGaps: true,
          }))],
      }, [data.x, ...data.series.map((line) => line.values)], place);
      new ResizeObserver(() => {
        if (place.clientWidth) plot.setSize({ width: place.clientWidth, height: place.clientHeight - 30 });
      }).observe(place);
    }
  };
  draw(document);

  // Keys: / searches, g and a letter goes to a page, ? shows them.
  const places = JSON.parse(body.dataset.places || "{}");
  let going = 0;
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, select, textarea");
    if (event.ctrlKey || event.metaKey || event.altKey || typing) return;
    if (event.key === "/") {
      const search = document.querySelector("input[type=search]");
      if (search) { event.preventDefault(); search.focus(); }
    } else if (event.key === "?") {
      document.getElementById("keys")?.showModal();
    } else if (event.key === "g") {
      going = Date.now();
    } else if (Date.now() - going < 1500 && places[event.key]) {
      window.location.assign(places[event.key]);
    }
  });
})();
