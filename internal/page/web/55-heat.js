// The heat map: the drawn part of the time in rows of equal length, each in squares whose colour says how many goroutines were in
// a state. It has the sums of the strip, in whole steps.

const heat = {
	kinds: [
		['blocked', 'blocked', 'goroutines that wait for something else than a core'], ['core', 'wait for a core', 'goroutines that could run, but have no core'],
		['cpu', 'on a CPU', 'goroutines on a CPU'], ['busy', 'not idle', 'goroutines that are not idle'],
	],
	rows: [], columns: 0, length: 0, // of a row in µs
	label: 62, bottom: 16, most: 0,
	cursor: null, anchor: null, // [row, column]
	key: '', queryKey: null,
	view: null, // what was drawn

	// sums adds up all records once: of each kind, and of the searched stacks in each kind.
	sums() {
		if (this.key !== String([S.idle, S.apart])) {
			this.key = String([S.idle, S.apart]);
			this.queryKey = null;
			const one = D.overview ? overviewTimes(3, (c, cpu) => this.kind(c, cpu)) : timesBySteps(3, (r) => this.kindOf(r));
			this.prefix = {cpu: one[0], core: one[1], blocked: one[2], busy: one[0].map((v, i) => v + one[1][i] + one[2][i])};
			this.prefix.busy.width = one[0].width;
		}
		const query = S.query && S.heatKind + S.query;
		if (query === this.queryKey) return;
		this.queryKey = query;
		const found = matches(), only = ['cpu', 'core', 'blocked'].indexOf(S.heatKind);
		this.found = found ? timesBySteps(1, (r) => {
			const kind = found[D.recNode[r]] ? this.kindOf(r) : -1;
			return kind < 0 || only >= 0 && kind !== only ? -1 : 0;
		})[0] : null;
	},

	kindOf(r) { return this.kind(D.recClass[r], D.recCPU[r]); },

	// kind returns 0 for what is on a CPU, 1 for what waits for a core, 2 for other waits, -1 for what is left out.
	kind(c, cpu) {
		if (leftOut(c)) return -1;
		if (cpu) return 0;
		return ['no core', 'runnable'].includes(D.classes[c]) ? 1 : 2;
	},

	// layout chooses the length of a row, so that there are at most 100 for each side.
	layout() {
		const [from, to] = strip.view();
		const lengths = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 21600, 43200, 86400].map((s) => s * 1e6);
		this.length = lengths.find((l) => (to - from) / l <= 100) || Math.ceil((to - from) / 8.64e12) * 8.64e10;
		this.columns = Math.max(1, Math.min(this.length < 6e7 ? 50 : 60, Math.floor(this.length / strip.width)));
		this.rows = [];
		for (const side of head.sides) {
			const a = Math.max(from, side.from_us), b = Math.min(to, side.to_us);
			for (let i = Math.floor((a - side.from_us) / this.length); b > a && side.from_us + i * this.length < b; i++) {
				this.rows.push({side, from: side.from_us + i * this.length});
			}
		}
	},

	// range returns the time of a square, in whole steps; null if the profile ends before it.
	range(row, column) {
		const r = this.rows[row], w = strip.width;
		const at = (c) => Math.round(Math.min(r.from + c / this.columns * this.length, Math.ceil(r.side.to_us / w) * w) / w) * w;
		const from = at(column), to = at(column + 1);
		return to > from ? [from, to] : null;
	},

	average(sum, [from, to]) { return (strip.sum(sum, to) - strip.sum(sum, from)) / (to - from); },

	draw() {
		byId('heat-open').setAttribute('aria-expanded', String(S.heat));
		for (const id of ['heat-controls', 'heat-scroll', 'heat-status', 'heat-twin']) byId(id).hidden = !S.heat;
		this.view = S.view;
		if (!S.heat) return;
		this.sums();
		this.layout();
		if (this.cursor && this.cursor[0] >= this.rows.length) this.cursor = this.anchor = null;
		const high = this.high = Math.max(4, Math.min(14, Math.floor(360 / this.rows.length)));
		const {g, width} = fit(byId('heat'), this.rows.length * high + this.bottom);
		const sum = this.prefix[S.heatKind], wide = this.wide = (width - this.label) / this.columns;
		const values = [], found = [];
		this.most = 0;
		let mostFound = 0;
		for (let row = 0; row < this.rows.length; row++) {
			for (let c = 0; c < this.columns; c++) {
				const range = this.range(row, c);
				const v = range ? this.average(sum, range) : -1, f = range && this.found ? this.average(this.found, range) : 0;
				values.push(v);
				found.push(f);
				this.most = Math.max(this.most, v);
				mostFound = Math.max(mostFound, f);
			}
		}
		const shades = Array.from({length: 64}, (_, i) => i < 32 ? mix(colours['--heat1'], colours['--heat2'], i / 32) : mix(colours['--heat2'], colours['--heat3'], (i - 32) / 31));
		const grey = shades.map((_, i) => mix(colours['--panel'], colours['--sleep'], i / 63)), marked = shades.map((_, i) => mix(mix(colours['--ground'], colours['--mark'], 0.35), colours['--mark'], i / 63));
		const shade = (list, v, most) => list[Math.min(63, Math.floor(63 * v / most))];
		const gap = Math.min(1, high / 8);
		values.forEach((v, i) => {
			if (v < 0) return;
			const row = Math.floor(i / this.columns), x = this.label + i % this.columns * wide;
			if (found[i] > 1e-9) g.fillStyle = shade(marked, found[i], mostFound);
			else if (v <= 1e-9) g.fillStyle = colours['--panel'];
			else g.fillStyle = shade(this.found ? grey : shades, v, this.most);
			g.fillRect(x, row * high, Math.max(0.5, wide - gap), high - gap);
		});
		this.axis(g, width);
		for (const [range, colour] of [[S.range, '--accent'], [S.second, '--mark']]) if (range) this.outline(g, range, colours[colour]);
		if (this.cursor) this.box(g, this.cursor[0], this.cursor[1], this.cursor[1] + 1, colours['--text']);
		this.bar(mostFound);
		this.describe();
		this.twin();
	},

	axis(g, width) {
		const n = this.rows.length, y = n * this.high;
		g.font = '11px system-ui, "DejaVu Sans", sans-serif';
		g.fillStyle = colours['--dim'];
		g.textBaseline = 'middle';
		g.textAlign = 'right';
		const each = Math.max(1, Math.ceil(13 / this.high));
		for (let row = 0; row < n; row += each) g.fillText(clock(this.rows[row]), this.label - 6, row * this.high + Math.max(6, this.high / 2));
		g.textAlign = 'left';
		const step = niceStep(this.length / Math.max(2, (width - this.label) / 90));
		for (let t = 0; t < this.length; t += step) {
			const x = this.label + (width - this.label) * t / this.length, text = '+' + (t ? duration(t) : '0');
			g.fillStyle = colours['--line'];
			g.fillRect(x, y, 1, 5);
			g.fillStyle = colours['--dim'];
			if (x + g.measureText(text).width + 4 <= width) g.fillText(text, x + 3, y + 9);
		}
	},

	// outline draws a line around the squares of a range.
	outline(g, [from, to], colour) {
		const parts = this.rows.map((r) => {
			const a = Math.max(0, (from - r.from) / this.length), b = Math.min(1, (to - r.from) / this.length);
			return to <= r.side.from_us || from >= r.side.to_us || b <= a ? null : [a, b];
		});
		const at = (share) => this.label + share * this.columns * this.wide;
		g.fillStyle = colour;
		parts.forEach((part, row) => {
			if (!part) return;
			const [a, b] = part, y = row * this.high, over = parts[row - 1] || [b, b], under = parts[row + 1] || [a, a];
			for (const x of [at(a) - 1, at(b) - 1]) g.fillRect(x, y, 2, this.high);
			if (over[0] > a) g.fillRect(at(a), y - 1, at(Math.min(b, over[0])) - at(a), 2);
			if (under[1] < b) g.fillRect(at(Math.max(a, under[1])), y + this.high - 1.5, at(b) - at(Math.max(a, under[1])), 2);
		});
	},

	box(g, row, from, to, colour) {
		g.strokeStyle = colour;
		g.lineWidth = 2;
		g.strokeRect(this.label + from * this.wide, row * this.high, Math.max(2, (to - from) * this.wide - 1), this.high - 1);
	},

	// bar says what the squares are.
	bar(mostFound) {
		byId('heat-kind').value = S.heatKind;
		byId('heat-kind').options[0].textContent = this.name('busy');
		byId('heat-most').textContent = `${digits(this.most)} goroutines on average`;
		const square = this.length / this.columns;
		byId('heat-note').textContent = `A row is ${duration(this.length)}, a square ${duration(square)}${D.width > square ? `, a range whole steps of ${duration(D.width)}` : ''}.` + (this.found ? mostFound > 0 ? ' Marked: stacks with the search.' : ' No square has the search.' : '');
	},

	name(kind) { return kind === 'busy' && S.idle ? 'in all' : this.kinds.find((k) => k[0] === kind)[1]; },

	// lines describe a square.
	lines(row, column) {
		const range = this.range(row, column);
		if (!range) return null;
		const out = [`${moment(range[0])} – ${moment(range[1])}`];
		for (const [kind] of this.kinds) out.push(`${digits(this.average(this.prefix[kind], range))} ${this.name(kind)}`);
		if (this.found) out.push(`${digits(this.average(this.found, range))} with the search`);
		for (const gap of gaps.within(...range).slice(0, 1)) out.push(...gaps.lines(gap));
		return out;
	},

	describe() {
		const lines = this.cursor && this.lines(...this.cursor);
		byId('heat-status').textContent = lines ? lines.join('  ·  ') : '';
	},

	// at returns the square at a place of the canvas; the column is -1 left of the squares.
	at(e) {
		const row = Math.floor(e.offsetY / this.high);
		if (row < 0 || row >= this.rows.length) return null;
		return [row, e.offsetX < this.label ? -1 : Math.min(this.columns - 1, Math.floor((e.offsetX - this.label) / this.wide))];
	},

	// span returns the time from one square to another. A column of -1 is the whole row.
	span(a, b) {
		const list = [a, b].flatMap(([row, column]) => column < 0 ? Array.from({length: this.columns}, (_, c) => this.range(row, c)) : [this.range(row, column)]).filter((r) => r);
		return list.length ? [Math.min(...list.map((r) => r[0])), Math.max(...list.map((r) => r[1]))] : null;
	},

	// select selects the time from one square to another, or nothing if that is selected already.
	select(a, b, second) {
		const squares = this.span(a, b), range = squares && strip.atSteps(...squares), old = second ? S.second : S.range;
		if (!range) return;
		if (old && old[0] === range[0] && old[1] === range[1]) strip.select(null, second);
		else strip.select(range, second);
	},

	start() {
		const c = byId('heat');
		put(byId('heat-kind'), ...this.kinds.map(([kind, name, title]) => el('option', {value: kind, title}, name)));
		byId('heat-kind').addEventListener('change', (e) => change({heatKind: e.target.value}));
		byId('heat-open').addEventListener('click', () => change({heat: !S.heat}));
		byId('heat-twin').addEventListener('toggle', () => this.twin());
		let drag = null;
		c.addEventListener('pointerdown', (e) => {
			const at = this.at(e);
			if (e.button !== 0 || !at) return;
			c.setPointerCapture(e.pointerId);
			drag = {at, to: at, second: e.shiftKey || comparing};
			tip(null);
		});
		c.addEventListener('pointermove', (e) => {
			const at = this.at(e);
			if (!drag) return tip(at && at[1] >= 0 ? this.lines(...at) : null, e);
			if (!at || at.join() === drag.to.join()) return;
			drag.to = at;
			drag.moved = true;
			const range = this.span(drag.at, at);
			if (range) strip.select(strip.atSteps(...range), drag.second);
		});
		c.addEventListener('pointerup', () => {
			const d = drag;
			drag = null;
			if (!d) return;
			if (!d.moved) this.select(d.at, d.at, d.second);
			if (d.second) setComparing(false);
		});
		c.addEventListener('pointercancel', () => { drag = null; });
		c.addEventListener('pointerleave', () => tip(null));
		c.addEventListener('keydown', (e) => this.keydown(e));
	},

	// keydown moves the cursor, and with Shift the end of a range.
	keydown(e) {
		if (e.ctrlKey || e.metaKey || e.altKey || !this.rows.length) return;
		const [row, column] = this.cursor || [0, 0], page = 10;
		const next = {
			ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1], ArrowUp: [row - 1, column], ArrowDown: [row + 1, column],
			Home: [row, 0], End: [row, this.columns - 1], PageUp: [row - page, column], PageDown: [row + page, column],
		}[e.key];
		if (next) {
			const at = Math.max(0, Math.min(this.rows.length * this.columns - 1, this.cursor ? Math.max(0, Math.min(this.rows.length - 1, next[0])) * this.columns + next[1] : 0));
			if (!e.shiftKey) this.anchor = null;
			else this.anchor ||= [row, column];
			this.cursor = [Math.floor(at / this.columns), at % this.columns];
			const scroll = byId('heat-scroll'), y = this.cursor[0] * this.high;
			if (y < scroll.scrollTop || y + this.high > scroll.scrollTop + scroll.clientHeight) scroll.scrollTop = Math.max(0, y - 60);
			const range = this.anchor && this.span(this.anchor, this.cursor);
			if (range) strip.select(strip.atSteps(...range), comparing);
			nudge('heat');
		} else if (e.key === 'Enter' && this.cursor) this.select(this.anchor || this.cursor, this.cursor, comparing);
		else return;
		e.preventDefault();
	},

	// twin is the rows as a table.
	twin() {
		const d = byId('heat-twin');
		if (!d.open) return;
		put(d.querySelector('.scroll'), el('table', null,
			el('thead', null, el('tr', null, el('th', {class: 'name', scope: 'col'}, 'Goroutines on average'), ...this.kinds.map(([kind]) => el('th', {scope: 'col'}, this.name(kind))),
				this.found && el('th', {scope: 'col'}, 'with the search'), el('th', {scope: 'col'}, 'most in a square'), el('th', {scope: 'col'}, 'at'))),
			el('tbody', null, ...this.rows.map((_, row) => {
				const range = this.span([row, -1], [row, -1]);
				if (!range) return null;
				let most = -1, at = null;
				for (let c = 0; c < this.columns; c++) {
					const square = this.range(row, c), v = square ? this.average(this.prefix[S.heatKind], square) : -1;
					if (v > most) [most, at] = [v, square];
				}
				return el('tr', null, el('td', {class: 'name'}, el('button', {'data-key': 'heat' + row, title: 'select this range', onclick: () => this.select([row, -1], [row, -1], comparing)}, `${moment(range[0])} – ${moment(range[1])}`)),
					...this.kinds.map(([kind]) => el('td', null, digits(this.average(this.prefix[kind], range)))),
					this.found && el('td', null, digits(this.average(this.found, range))), el('td', null, digits(most)),
					el('td', null, el('button', {class: 'plain', 'data-key': 'most' + row, title: 'select this square', onclick: () => strip.select(strip.atSteps(...at), comparing)}, moment(at[0]))));
			}).filter((r) => r))));
	},

	// squares returns all squares, for tests.
	squares() {
		return this.rows.flatMap((_, row) => Array.from({length: this.columns}, (_, c) => [row, c, this.range(row, c)])).filter(([, , range]) => range).map(([row, c, [from, to]]) => ({
			row, from, to, x: this.label + (c + 0.5) * this.wide, y: (row + 0.5) * this.high, us: Object.fromEntries(Object.entries(this.prefix).map(([kind, sum]) => [kind, strip.sum(sum, to) - strip.sum(sum, from)])),
			found: this.found ? strip.sum(this.found, to) - strip.sum(this.found, from) : 0,
		}));
	},
};

// clock returns the time at which a row begins, without what all rows have alike.
function clock(row) {
	const us = row.from - row.side.from_us, s = us / 1e6, two = (v) => String(Math.floor(v)).padStart(2, '0');
	const text = s < 3600 ? `${Math.floor(s / 60)}:${two(s % 60)}` : s < 86400 ? `${Math.floor(s / 3600)}:${two(s / 60 % 60)}:${two(s % 60)}` : `${Math.floor(s / 86400)}d ${two(s / 3600 % 24)}:${two(s / 60 % 60)}`;
	return (head.sides.length > 1 ? 'AB'[head.sides.indexOf(row.side)] + ' ' : '') + text;
}
