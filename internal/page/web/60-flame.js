// The flame graph. Boxes are made only where they are wide enough to see, so it does not matter how large the tree is.

// A box is a function at one place of the graph: nodes of the data that have it there. A box that points down has the
// callees below it; one that points up has callers, and its nodes are those of callers, with the time that came from below.
class Box {
	constructor(fn, up, depth) {
		this.fn = fn;
		this.up = up;
		this.depth = depth;
		this.nodes = [];
		this.origins = []; // up: the node whose time it is
		this.value = 0;
		this.other = 0; // of the second range
		this.kids = null;
		this.parent = null;
	}

	add(node, origin) {
		this.nodes.push(node);
		this.origins.push(origin);
		const [a, b] = flame.sums, list = flame.ends ? 'self' : 'total';
		this.value += a[list][origin];
		if (b) this.other += b[list][origin];
	}

	// children returns the boxes below, the widest first.
	children() {
		if (this.kids) return this.kids;
		const of = new Map();
		const add = (node, origin) => {
			const fn = D.fn[node];
			let k = of.get(fn);
			if (!k) {
				of.set(fn, k = new Box(fn, this.up, this.depth + 1));
				k.parent = this;
			}
			k.add(node, origin);
		};
		const [a, b] = flame.sums;
		for (let i = 0; i < this.nodes.length; i++) {
			const n = this.nodes[i];
			if (this.up) {
				if (D.caller[n] > 0) add(D.caller[n], this.origins[i]);
				continue;
			}
			for (let j = D.children.start[n]; j < D.children.start[n + 1]; j++) {
				const c = D.children.list[j];
				if (a.total[c] || b && b.total[c]) add(c, c);
			}
		}
		return this.kids = [...of.values()].sort((x, y) => y.size() - x.size() || x.fn - y.fn);
	}

	// size is what the width of the box stands for. If two ranges are compared, it is the mean of both for each second.
	size() {
		return flame.sums[1] ? (this.rate(0) + this.rate(1)) / 2 : this.value;
	}

	rate(i) {
		const s = flame.sums[i];
		return s.length ? (i ? this.other : this.value) / s.length : 0;
	}

	path() { return this.parent && this.parent.fn !== null ? [...this.parent.path(), this.fn] : [this.fn]; }
}

const flame = {
	row: 18, sums: null, boxes: [], root: null, ends: false, focus: null, callers: 0, key: '',

	// build makes the root of the tree that is asked for.
	build() {
		const list = sums(), key = JSON.stringify([sumsKey, S.invert, S.selected]);
		if (key === this.key) return;
		this.key = key;
		this.sums = list;
		this.focus = null;
		this.root = this.above = null;
		if (S.selected >= 0) {
			this.ends = false;
			this.root = this.whole(S.selected, false);
			this.above = this.whole(S.selected, true);
			return;
		}
		this.ends = S.invert;
		this.root = new Box(null, false, 0);
		if (!S.invert) {
			this.root.add(0, 0);
			return;
		}
		const of = new Map(), [a, b] = this.sums;
		for (let n = 1; n < D.caller.length; n++) {
			if (!a.self[n] && !(b && b.self[n])) continue;
			let k = of.get(D.fn[n]);
			if (!k) {
				of.set(D.fn[n], k = new Box(D.fn[n], true, 1));
				k.parent = this.root;
			}
			k.add(n, n);
		}
		this.root.kids = [...of.values()].sort((x, y) => y.size() - x.size());
		for (const k of this.root.kids) {
			this.root.value += k.value;
			this.root.other += k.other;
		}
	},

	// whole returns a box with all time of a function.
	whole(fn, up) {
		const box = new Box(fn, up, 0), [a, b] = this.sums;
		for (let n = 1; n < D.caller.length; n++) {
			if (D.fn[n] === fn && D.outermost[n] && (a.total[n] || b && b.total[n])) box.add(n, n);
		}
		return box;
	},

	// zoomed returns the box that is zoomed into.
	zoomed() {
		let at = this.root;
		for (const fn of S.zoom) {
			const next = at.children().find((k) => k.fn === fn);
			if (!next) break;
			at = next;
		}
		return at;
	},

	// layout places the boxes: {box, x, w, y} in pixels, y in rows.
	layout(width) {
		const out = [];
		const zoom = this.zoomed();
		const below = (box, x, w, y, step) => {
			out.push({box, x, w, y});
			const size = box.size();
			if (!(size > 0) || w < 1.5 && box !== zoom) return;
			let at = x;
			for (const k of box.children()) {
				const kw = w * k.size() / size;
				if (kw < 0.8) break;
				below(k, at, kw, y + step, step);
				at += kw;
			}
		};
		const parents = [];
		for (let p = zoom.parent; p; p = p.parent) parents.unshift(p);
		parents.forEach((p, i) => out.push({box: p, x: 0, w: width, y: i, parent: true}));
		below(zoom, 0, width, parents.length, 1);
		this.callers = 0;
		if (this.above) {
			const from = out.length;
			let at = 0;
			const size = this.above.size();
			for (const k of this.above.children()) {
				const kw = width * k.size() / size;
				if (kw < 0.8) break;
				below(k, at, kw, -1, -1);
				at += kw;
			}
			for (let i = from; i < out.length; i++) this.callers = Math.max(this.callers, -out[i].y);
			for (const b of out) b.y += this.callers;
		}
		return out;
	},

	draw() {
		this.build();
		const canvas = byId('flame'), kind = S.graph;
		byId('flame-scroll').hidden = kind === 'tree';
		byId('tree').hidden = kind !== 'tree';
		this.bar();
		if (kind === 'tree') {
			this.boxes = [];
			byId('status').textContent = '';
			return tree.draw();
		}
		this.boxes = kind === 'time' ? inTime.layout(canvas.clientWidth) : nothing() ? [] : this.layout(canvas.clientWidth);
		let rows = 1, wide = 1; // what is too narrow to read may be below the end of the panel, which scrolls
		for (const b of this.boxes) {
			rows = Math.max(rows, b.y + 1);
			if (b.w >= 6) wide = Math.max(wide, b.y + 1);
		}
		byId('flame-scroll').style.maxHeight = `min(58vh, ${wide * this.row + 5}px)`;
		const {g} = fit(canvas, rows * this.row + 1);
		g.font = '12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace';
		g.textBaseline = 'middle';
		const letter = g.measureText('M').width, found = matches();
		for (const b of this.boxes) this.box(g, b, letter, found);
		this.describe();
	},

	box(g, b, letter, found) {
		const x = b.x, y = b.y * this.row, w = Math.max(0.5, b.w - (b.w > 3 ? 0.6 : 0)), h = this.row - 1;
		const hit = found && b.box.fn !== null && b.box.nodes.some((n) => found[n] === 2);
		let fill = this.colour(b.box);
		if (b.parent) fill = mix(fill, colours['--ground'], 0.5);
		else if (found && !hit) fill = mix(fill, colours['--ground'], 0.65);
		g.fillStyle = fill;
		g.fillRect(x, y, w, h);
		if (S.colour === 'state' && !this.sums[1] && w > 8 && !(found && !hit)) this.stripe(g, b.box, x, y + h - 3, w);
		if (hit) {
			g.fillStyle = colours['--mark'];
			g.fillRect(x, y, w, 2.5);
		}
		if (this.focus === b.box || S.selected >= 0 && b.box === this.root) {
			g.strokeStyle = colours['--text'];
			g.lineWidth = 2;
			g.strokeRect(x + 1, y + 1, Math.max(1, w - 2), h - 2);
		}
		const room = Math.floor((w - 6) / letter);
		if (room < 2) return;
		let text = this.name(b.box);
		if (text.length > room) text = shortName(text);
		if (text.length > room && !text.startsWith('[')) text = text.slice(text.indexOf('.') + 1); // what packages share says the least
		if (text.length > room) text = room < 4 ? '' : text.slice(0, room - 1) + '…';
		g.fillStyle = ink(fill);
		g.fillText(text, x + 3, y + h / 2);
	},

	name(box) { return box.fn === null ? S.graph === 'time' ? whose() : ({cpu: 'CPU time', latency: 'time on the clock'}[S.weight] || whose()) : fnName(box.fn); },

	// shares returns the time of a box by class.
	shares(box) {
		const k = D.classes.length, out = new Float64Array(k), list = this.sums[0].byClass;
		for (const n of box.fn === null ? [0] : this.ends ? [] : box.origins) {
			for (let c = 0; c < k; c++) out[c] += list[n * k + c];
		}
		if (this.ends && box.fn !== null) {
			// Only time of stacks that end there: what the node has more than its children.
			for (const n of box.origins) {
				for (let c = 0; c < k; c++) out[c] += list[n * k + c];
				for (let j = D.children.start[n]; j < D.children.start[n + 1]; j++) {
					for (let c = 0; c < k; c++) out[c] -= list[D.children.list[j] * k + c];
				}
			}
		}
		return out;
	},

	colour(box) {
		if (this.sums[1]) return this.difference(box);
		if (S.colour === 'package') {
			if (box.fn === null) return colours['--same'];
			const name = fnPackage(box.fn) || fnName(box.fn);
			let h = 7;
			for (let i = 0; i < name.length; i++) h = (h * 31 + name.charCodeAt(i)) >>> 0;
			const list = ['--running', '--io', '--channel', '--nocore', '--syscall', '--sleep', '--runnable', '--lock'];
			return mix(colours[list[h % list.length]], colours['--ground'], 0.15 + (h >>> 8) % 4 * 0.15);
		}
		let best = 0;
		box.shares ||= this.shares(box);
		for (let c = 1; c < box.shares.length; c++) if (box.shares[c] > box.shares[best]) best = c;
		return mix(classColour(best), colours['--ground'], box.fn !== null && fnName(box.fn).startsWith('[') ? 0 : 0.3);
	},

	// difference returns the colour of a change: more in the second range, less, or about the same.
	difference(box) {
		const a = box.rate(0), b = box.rate(1), whole = Math.max(this.root.rate(0), this.root.rate(1)) || 1;
		const change = (b - a) / (a + b || 1);
		if (Math.abs(b - a) < whole * 0.002 || Math.abs(change) < 0.02 || !isSignificant(box.fn)) return colours['--same'];
		return mix(colours['--same'], colours[change > 0 ? '--more' : '--less'], Math.min(1, 0.25 + Math.abs(change)));
	},

	// stripe shows at the bottom of a box how its time is divided among classes.
	stripe(g, box, x, y, w) {
		let at = x, sum = 0;
		for (const v of box.shares) sum += v;
		for (let c = 0; c < box.shares.length; c++) {
			const part = w * box.shares[c] / sum;
			if (!(part > 0)) continue;
			g.fillStyle = classColour(c);
			g.fillRect(at, y, part, 3);
			at += part;
		}
	},

	at(e) {
		const y = Math.floor(e.offsetY / this.row);
		return this.boxes.find((b) => b.y === y && e.offsetX >= b.x && e.offsetX < b.x + Math.max(1, b.w)) || null;
	},

	// lines describe a box.
	lines(box) {
		const [a, b] = this.sums, out = [this.name(box)];
		if (box.to) out.push(`${moment(box.from)} – ${moment(box.to)}: ${duration(box.to - box.from)}`);
		if (box.fn !== null && fnFile(box.fn)) {
			const of = new Set(box.nodes.map((n) => D.line[n]).filter((l) => l > 0)), list = [...of].sort((x, y) => x - y);
			out.push(fnFile(box.fn) + (list.length ? ':' + list.slice(0, 8).join(', ') + (list.length > 8 ? ' …' : '') : ''));
		}
		if (box.to) return [...out, this.states(box)];
		const all = a.all, share = percent(box.value, all);
		if (b) {
			out.push(`A ${duration(box.value)}, ${digits(box.rate(0))} goroutines on average; B ${duration(box.other)}, ${digits(box.rate(1))}`);
			if (box.fn !== null && !isSignificant(box.fn)) out.push('not significant');
			return out;
		}
		let self = 0, cpu = 0;
		if (!this.ends && !box.up) for (const n of box.nodes) { self += a.self[n]; cpu += a.totalCPU[n]; }
		out.push(`${duration(box.value)}  ${share}` + (!this.ends && !box.up ? `, self ${duration(self)}, CPU ${duration(cpu)}` : ''));
		const states = this.states(box);
		return states ? [...out, states] : out;
	},

	// states says which part of the time of a box is of which class.
	states(box) {
		const shares = box.shares || this.shares(box), parts = [];
		for (let c = 0; c < shares.length; c++) if (shares[c] > box.value * 0.005) parts.push(`${D.classes[c]} ${percent(shares[c], box.value)}`);
		return parts.join(', ');
	},

	describe() {
		const found = this.focus && this.boxes.find((b) => b.box === this.focus);
		byId('status').textContent = found ? this.lines(found.box).join('  ·  ') : '';
	},

	graphs: [['flame', 'Flame graph', 'width is time, what is alike is together'], ['tree', 'Call tree', 'the same as a table that unfolds'], ['time', 'In order of time', 'the stacks of one goroutine, from left to right']],

	bar() {
		const [a, b] = this.sums, all = `${duration(a.all)} ${S.weight === 'cpu' ? 'of CPU' : 'of ' + whose()} in ${duration(a.length)}`, list = [];
		put(byId('graphs'), ...this.graphs.map(([id, name, title]) => el('button', {'aria-pressed': String(S.graph === id), 'data-key': 'graph' + id, title, onclick: () => change({graph: id})}, name)));
		if (S.graph === 'time') return put(byId('flame-bar'), ...inTime.said());
		list.push(el('span', null, b ? `A ${duration(a.all)} of goroutines in ${duration(a.length)}, B ${duration(b.all)} in ${duration(b.length)}.` + (S.graph === 'flame' ? ' Width: mean of both for each second.' : '') :
			S.weight === 'latency' ? `${duration(a.all)} on the clock, divided among what ran, or among what waited while nothing did. Of the whole profile, also if a range is selected.` : all));
		if (b && S.graph === 'flame') list.push(el('span', {class: 'more'}, '■ more in B'), el('span', {class: 'less'}, '■ less in B'), el('span', {class: 'same'}, '■ about the same'));
		if (S.selected >= 0) list.push(el('span', null, S.graph === 'flame' ? 'Callers above, callees below: ' : 'Callees of: ', el('b', null, fnName(S.selected)), b ? '' : ` ${duration(this.root.value)}, ${percent(this.root.value, a.all)} of it`));
		put(byId('flame-bar'), ...(nothing() ? [el('span', null, nothing())] : list));
	},
};

// whose says which goroutines the graph is of.
const whose = () => S.goroutine >= 0 ? `goroutine ${G.gId[S.goroutine]}` : S.group >= 0 ? 'these goroutines' : 'all goroutines';

// isSignificant reports whether a change of a function may be more than chance, as far as that is known.
// Of two whole profiles gotach diff knows it; of two ranges nobody tested it.
function isSignificant(fn) {
	const diff = findings.diff();
	if (!diff || fn === null || JSON.stringify([S.range, S.second]) !== JSON.stringify([sideRange(0), sideRange(1)])) return true;
	significant ||= new Set(diff.rows.filter((r) => r.significant).map((r) => r.name));
	return significant.has(fnName(fn));
}

let significant = null;

// sourceOf returns the line of a box that has the most time, with those around it. It is null if the page does not have it.
function sourceOf(box) {
	if (box.fn === null || !source) return null;
	const time = new Map(), [a] = flame.sums;
	for (const n of box.nodes) if (D.line[n]) time.set(D.line[n], (time.get(D.line[n]) || 0) + a.total[n]);
	const lines = source.files[fnFile(box.fn)];
	if (!time.size || !lines || !Object.hasOwn(source.files, fnFile(box.fn))) return null;
	const line = [...time].sort((x, y) => y[1] - x[1])[0][0], out = [];
	for (let n = line - 2; n <= line + 2; n++) {
		if (lines[n] !== undefined) out.push(`${n === line ? '→' : ' '}${String(n).padStart(5)}  ${lines[n].replaceAll('\t', '    ')}`);
	}
	return out.join('\n');
}

let source = null; // the piece "source"; it is read last, because only the tooltips need it
