// The time strip: how many goroutines were in each class of states over time. Drag selects a range.

const strip = {
	prefix: null, // by class: sums of µs up to each step
	drag: null,
	top: 14, bottom: 26,

	// prepare adds up all records once.
	prepare() {
		this.prefix = D.overview ? overviewTimes(D.classes.length, (c) => c) : timesBySteps(D.classes.length, (r) => D.recClass[r]);
		this.width = this.prefix[0].width;
		this.collector();
		gaps.prepare();
	},

	// collector adds up the CPU time of the garbage collector, also that which other goroutines gave it.
	collector() {
		const names = /^runtime\.(gcBgMarkWorker|gcAssistAlloc|gcMarkTermination|gcStart|bgsweep)$/, fn = D.fnName.map((s) => names.test(D.strings[s]));
		const under = new Uint8Array(D.caller.length);
		for (let n = 1; n < under.length; n++) under[n] = fn[D.fn[n]] || under[D.caller[n]];
		let any = false;
		const [sum] = timesBySteps(1, (r) => {
			if (!under[D.recNode[r]] || !D.recCPU[r]) return -1;
			any = true;
			return 0;
		});
		this.gc = any ? sum : null;
	},

	// collected returns how many cores the garbage collector used between two times, on average.
	collected(from, to) { return this.gc ? (this.sum(this.gc, to) - this.sum(this.gc, from)) / (to - from) : 0; },

	view() { return S.view || [0, D.steps * D.width]; },
	classes() { return D.classes.map((_, c) => c).filter((c) => !S.hidden.includes(c) && !leftOut(c)); },

	// average returns how many goroutines were in a class between two times.
	average(c, from, to) { return (this.until(c, to) - this.until(c, from)) / (to - from); },

	// until returns the time of a class up to a time.
	until(c, us) { return this.sum(this.prefix[c], us); },

	// sum returns a sum up to a time. p has it up to each step.
	sum(p, us) {
		const steps = p.length - 1, x = Math.max(0, Math.min(steps, us / p.width)), i = Math.floor(x);
		return p[i] + (i < steps ? (x - i) * (p[i + 1] - p[i]) : 0);
	},

	timeAt(x) {
		const [from, to] = this.view();
		return from + (to - from) * Math.max(0, Math.min(1, x / byId('strip').clientWidth));
	},

	xAt(us) {
		const [from, to] = this.view();
		return (us - from) / (to - from) * byId('strip').clientWidth;
	},

	draw() {
		const {g, width, height} = fit(byId('strip'));
		const [from, to] = this.view(), list = this.classes(), h = height - this.top - this.bottom;
		const columns = Math.max(1, Math.floor(width)), values = list.map(() => new Float64Array(columns));
		const last = list.map((c) => this.until(c, from));
		let most = 0;
		for (let x = 0; x < columns; x++) {
			let sum = 0;
			for (let i = 0; i < list.length; i++) {
				const until = this.until(list[i], from + (to - from) * (x + 1) / columns);
				sum += values[i][x] = (until - last[i]) / (to - from) * columns;
				last[i] = until;
			}
			most = Math.max(most, sum);
		}
		this.most = most;
		if (most) areas(g, 0, this.top + h, h / most, list.map((c, i) => [c, values[i]]));
		this.search();
		if (this.found && most) this.line(g, columns, this.top + h, h / most, from, to);
		this.marks(g, columns, height - this.bottom, from, to);
		gaps.draw(g, height - this.bottom + 4, width);
		this.axis(g, width, height, from, to);
		for (const [range, name, colour] of [[S.range, S.second ? 'A' : '', '--accent'], [S.second, 'B', '--mark']]) {
			if (range) this.range(g, range, name, colours[colour], width, height);
		}
		if (S.at >= 0) {
			g.fillStyle = colours['--text'];
			g.fillRect(Math.round(this.xAt(S.at)) - 0.5, this.top - 4, 1.5, height - this.top - this.bottom + 8);
		}
	},

	// search adds up the time of what the search finds.
	search() {
		const key = JSON.stringify([S.query, S.idle, S.apart]), found = matches();
		if (key === this.foundKey) return;
		this.foundKey = key;
		this.found = found && timesBySteps(1, (r) => found[D.recNode[r]] && !leftOut(D.recClass[r]) ? 0 : -1)[0];
	},

	// line draws how many goroutines are in what the search finds.
	line(g, columns, bottom, scale, from, to) {
		g.fillStyle = colours['--mark'];
		let before = bottom;
		for (let x = 0; x < columns; x++) {
			const y = bottom - (this.sum(this.found, from + (to - from) * (x + 1) / columns) - this.sum(this.found, from + (to - from) * x / columns)) / (to - from) * columns * scale;
			if (y < bottom || before < bottom) g.fillRect(x, Math.min(y, before) - 1, 1, Math.abs(y - before) + 2);
			before = y;
		}
	},

	// reveal moves the drawn part to the first time that the search finds, if it finds nothing in it.
	reveal() {
		this.search();
		const [from, to] = this.view();
		if (!S.view || !this.found || this.sum(this.found, to) > this.sum(this.found, from)) return;
		const step = this.found.findIndex((v) => v > 0) - 1;
		if (step >= 0) change({view: [step * D.width, step * D.width + to - from].map((t) => Math.round(t - Math.max(0, step * D.width + to - from - D.steps * D.width)))});
	},

	// marks shows below the areas when the garbage collector worked.
	marks(g, columns, y, from, to) {
		if (!this.gc) return;
		g.fillStyle = colours['--text'];
		for (let x = 0; x < columns; x++) {
			if (this.collected(from + (to - from) * x / columns, from + (to - from) * (x + 1) / columns) > 0) g.fillRect(x, y, 1, 3);
		}
	},

	axis(g, width, height, from, to) {
		g.font = '11px system-ui, "DejaVu Sans", sans-serif';
		g.fillStyle = colours['--text'];
		g.textBaseline = 'top';
		g.textAlign = 'left';
		const title = `${digits(this.most)} goroutines`;
		g.fillText(title, 2, 0);
		this.titled = g.measureText(title).width + 10;
		const step = niceStep((to - from) / Math.max(2, width / 90));
		let free = 0; // up to there is text
		for (const [i, side] of head.sides.entries()) {
			const most = i + 1 < head.sides.length ? this.xAt(head.sides[i + 1].from_us) : width;
			for (let t = Math.max(side.from_us, side.from_us + Math.ceil((from - side.from_us) / step) * step); t <= Math.min(to, side.to_us); t += step) {
				const x = this.xAt(t), text = seconds(t - side.from_us);
				g.fillStyle = colours['--line'];
				g.fillRect(x, height - this.bottom + 8, 1, 5);
				const end = x + g.measureText(text).width + 3;
				if (end > most || x < free) continue;
				free = end;
				g.fillStyle = colours['--dim'];
				g.fillText(text, x + 3, height - this.bottom + 11);
			}
		}
		if (head.sides.length > 1) {
			g.fillStyle = colours['--text'];
			g.fillRect(this.xAt((head.sides[0].to_us + head.sides[1].from_us) / 2), this.top, 1, height - this.top);
		}
	},

	range(g, [from, to], name, colour, width, height) {
		const a = Math.max(0, this.xAt(from)), b = Math.min(width, this.xAt(to));
		if (b < 0 || a > width) return;
		g.globalAlpha = 0.16;
		g.fillStyle = colour;
		g.fillRect(a, this.top, b - a, height - this.top - this.bottom);
		g.globalAlpha = 1;
		g.fillRect(a - 1, this.top, 2, height - this.top - this.bottom);
		g.fillRect(b - 1, this.top, 2, height - this.top - this.bottom);
		const text = (name ? name + ' ' : '') + duration(to - from), w = g.measureText(text).width + 8;
		const x = Math.max(Math.min(this.titled, width - w), Math.min(width - w, (a + b - w) / 2));
		g.fillStyle = colours['--ground'];
		g.fillRect(x, 0, w, 13);
		g.fillStyle = colour;
		g.textAlign = 'left';
		g.textBaseline = 'top';
		g.fillText(text, x + 4, 1);
	},

	// atSteps widens a range to whole steps. It is null if it is empty.
	atSteps(a, b) {
		const w = D.width, from = Math.max(0, Math.floor(Math.min(a, b) / w)), to = Math.min(D.steps, Math.ceil(Math.max(a, b) / w));
		return to > from ? [from * w, to * w] : null;
	},

	select(range, isSecond) {
		if (isSecond && S.range) change({second: range});
		else change({range, second: range && S.second});
	},

	// zoom makes the drawn part larger or smaller around a time.
	zoom(factor, around) {
		const [from, to] = this.view(), all = D.steps * D.width;
		const length = Math.max(Math.min(all, 10 * this.width), (to - from) * factor);
		if (length >= all) return change({view: null});
		const begin = Math.max(0, Math.min(all - length, around - (around - from) * length / (to - from)));
		change({view: [Math.round(begin), Math.round(begin + length)]});
	},

	pan(share) {
		const [from, to] = this.view(), all = D.steps * D.width, by = Math.round(Math.max(-from, Math.min(all - to, (to - from) * share)));
		if (S.view && by) change({view: [from + by, to + by]});
	},

	start() {
		const c = byId('strip');
		c.addEventListener('pointerdown', (e) => {
			if (e.button !== 0) return;
			c.setPointerCapture(e.pointerId);
			this.drag = {x: e.offsetX, at: this.timeAt(e.offsetX), second: e.shiftKey || comparing, moved: false};
			tip(null);
		});
		c.addEventListener('pointermove', (e) => {
			if (!this.drag) return this.hover(e);
			if (Math.abs(e.offsetX - this.drag.x) < 3 && !this.drag.moved) return;
			this.drag.moved = true;
			this.select(this.atSteps(this.drag.at, this.timeAt(e.offsetX)), this.drag.second);
		});
		c.addEventListener('pointerup', () => {
			const d = this.drag;
			this.drag = null;
			if (d && !d.moved) d.second ? change({second: null}) : instant.show(d.at);
			else if (d && d.second) setComparing(false);
		});
		c.addEventListener('pointercancel', () => { this.drag = null; });
		c.addEventListener('pointerleave', () => tip(null));
		c.addEventListener('dblclick', () => change({view: null}));
		c.addEventListener('wheel', (e) => {
			const sideways = Math.abs(e.deltaX) > Math.abs(e.deltaY);
			if (!e.ctrlKey && !sideways) return; // the window scrolls
			e.preventDefault();
			if (sideways) this.pan(e.deltaX / 500);
			else this.zoom(e.deltaY > 0 ? 1.25 : 0.8, this.timeAt(e.offsetX));
		}, {passive: false});
		c.addEventListener('keydown', (e) => this.key(e));
		byId('strip-twin').addEventListener('toggle', () => this.twin());
	},

	// key moves the range, or its end with Shift.
	key(e) {
		const step = {ArrowLeft: -1, ArrowRight: 1}[e.key], [from, to] = this.view();
		if (step) {
			const second = comparing || S.second !== null && e.altKey, old = second ? S.second : S.range;
			const by = Math.max(D.width, (to - from) / 50) * step;
			const tenth = (to - from) / 10, middle = (from + to) / 2;
			let next;
			if (!old) next = [middle - tenth / 2, middle + tenth / 2];
			else if (e.shiftKey) next = [old[0], Math.max(old[0] + D.width, old[1] + by)];
			else next = [old[0] + by, old[1] + by];
			next = next[0] < 0 ? [0, next[1] - next[0]] : next;
			if (old) next = next.map((t) => Math.round(t / D.width) * D.width);
			this.select(this.atSteps(...next), second);
		} else if (e.key === '+' || e.key === '=') this.zoom(0.5, S.range ? (S.range[0] + S.range[1]) / 2 : (from + to) / 2);
		else if (e.key === '-') this.zoom(2, (from + to) / 2);
		else if (e.key === 'Enter') this.select(this.atSteps(from, to), comparing);
		else if (e.key === ' ') instant.show(S.range ? (S.range[0] + S.range[1]) / 2 : (from + to) / 2);
		else if (e.key === 'PageUp') this.pan(-0.5);
		else if (e.key === 'PageDown') this.pan(0.5);
		else return;
		e.preventDefault();
	},

	hover(e) {
		const t = this.timeAt(e.offsetX), [from, to] = this.view(), half = Math.max(this.width / 2, (to - from) / byId('strip').clientWidth / 2);
		const lines = [moment(t)];
		for (const c of this.classes().reverse()) {
			const v = this.average(c, t - half, t + half);
			if (v >= 0.005) lines.push(`${digits(v)} ${D.classes[c]}`);
		}
		const gc = this.collected(t - half, t + half);
		if (gc > 0) lines.push(`${digits(gc)} cores for the garbage collector`);
		const pixel = Math.max(half, (to - from) / byId('strip').clientWidth);
		for (const gap of gaps.within(t - pixel, t + pixel).slice(0, 1)) lines.push(...gaps.lines(gap));
		tip(lines, e);
	},

	legend() {
		put(byId('legend'), ...D.classes.map((name, c) => {
			const swatch = el('span', {class: 'swatch'});
			swatch.style.background = classColour(c);
			const shown = !S.hidden.includes(c) && !leftOut(c), by = switchOf(c);
			if (by === 'apart' && !anyApart()) return null;
			return el('button', {'aria-pressed': String(shown), 'data-key': 'class' + c, title: 'show or hide in the strip', onclick: () => {
				if (by) change({[by]: !S[by]});
				else change({hidden: shown ? [...S.hidden, c] : S.hidden.filter((h) => h !== c)});
			}}, swatch, name);
		}), this.gc && el('span', {id: 'gc', title: 'marks below the strip: the garbage collector used a core'}, el('span', {class: 'swatch tick'}), 'garbage collector'), ...gaps.legend());
	},

	// twin is the strip as a table.
	twin() {
		const d = byId('strip-twin');
		if (!d.open) return;
		const [from, to] = this.view(), list = this.classes(), rows = 20, lost = gaps.list.length > 0;
		const body = [];
		for (let i = 0; i < rows; i++) {
			const range = this.atSteps(from + (to - from) * i / rows, from + (to - from) * (i + 1) / rows);
			if (!range) continue;
			body.push(el('tr', null, el('td', {class: 'name'}, el('button', {'data-key': 'time' + i, title: 'select this range', onclick: () => this.select(range, comparing)}, `${moment(range[0])} – ${moment(range[1])}`)),
				...list.map((c) => el('td', null, digits(this.average(c, range[0], range[1])))), this.gc && el('td', null, digits(this.collected(range[0], range[1]))), lost && el('td', null, gaps.longest(...range))));
		}
		put(d.querySelector('.scroll'), el('table', null, el('thead', null, el('tr', null, el('th', {class: 'name', scope: 'col'}, 'Goroutines on average'), ...list.map((c) => el('th', {scope: 'col'}, D.classes[c])), this.gc && el('th', {scope: 'col', title: 'cores'}, 'garbage collector'),
			lost && el('th', {scope: 'col', title: 'the longest time'}, 'no samples for'))), el('tbody', null, ...body)));
	},
};

// timesBySteps adds up the time of records in some lists: of returns the number of a record's list, -1 if it is in none. A list
// has the sum of µs up to each step, and the width of a step.
function timesBySteps(lists, of) {
	const sums = newSums(lists, D.width);
	for (let r = 0; r < D.recNode.length; r++) {
		const i = of(r);
		for (let e = D.first[r]; i >= 0 && e < D.first[r + 1]; e++) sums.add(i, D.evStep[e], D.evPart[e], D.evDiff[e]);
	}
	return sums.finish();
}

// overviewTimes does the same with the time of all goroutines by class: of has the class, and whether it is on a CPU. Its steps
// are shorter where it is there.
function overviewTimes(lists, of) {
	const o = D.overview, sums = newSums(lists, o.width_us);
	for (let k = 0, e = 0; k < o.class.length; k++) {
		const i = of(o.class[k], o.cpu[k]);
		for (let n = o.events[k], step = 0; n > 0; n--, e++) {
			step += o.step[e];
			if (i >= 0) sums.add(i, step, o.part[e], o.diff[e]);
		}
	}
	return sums.finish();
}

function newSums(lists, width) {
	const n = Math.ceil(D.steps * D.width / width), out = Array.from({length: lists}, () => new Float64Array(n + 1)), rise = out.map(() => new Float64Array(n + 1));
	return {
		add(i, step, part, diff) {
			out[i][step + 1] += part;
			rise[i][step] += diff;
		},
		finish() {
			out.forEach((sum, i) => {
				sum.width = width;
				for (let step = 0, count = 0; step < n; step++) sum[step + 1] += sum[step] + (count += rise[i][step]) * width;
			});
			return out;
		},
	};
}

// areas draws numbers for each column, a list for each class, on top of each other: [class, numbers].
function areas(g, left, bottom, scale, list) {
	if (!list.length) return;
	const columns = list[0][1].length, base = new Float64Array(columns);
	for (const [c, values] of list) {
		g.fillStyle = classColour(c);
		g.beginPath();
		for (let x = 0; x < columns; x++) {
			if (!(values[x] > 0)) continue;
			// A piece of the area: columns one after the other that have the class.
			const from = x;
			g.moveTo(left + x, bottom - base[x] * scale);
			for (; x < columns && values[x] > 0; x++) {
				const y = bottom - (base[x] + values[x]) * scale;
				g.lineTo(left + x, y);
				g.lineTo(left + x + 1, y);
			}
			for (let back = x - 1; back >= from; back--) {
				const y = bottom - base[back] * scale;
				g.lineTo(left + back + 1, y);
				g.lineTo(left + back, y);
				base[back] += values[back];
			}
		}
		g.fill();
	}
}

// niceStep returns a round length of time of at least so many µs.
function niceStep(us) {
	for (const s of [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7, 2e7, 3e7, 6e7, 1.2e8, 3e8, 6e8, 1.2e9, 1.8e9, 3.6e9, 7.2e9, 1.44e10, 4.32e10]) {
		if (s >= us) return s;
	}
	return Math.ceil(us / 8.64e10) * 8.64e10;
}

let comparing = false, refused = false; // refused: there is no range to compare with

function setComparing(on) {
	comparing = on && S.range !== null;
	refused = on && !comparing;
	byId('compare').setAttribute('aria-pressed', String(comparing));
	nudge('controls');
}
