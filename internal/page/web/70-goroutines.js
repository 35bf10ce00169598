// The goroutines: a row for each group that was created at one place, and below it a row for each goroutine. The row of a
// group has all of its goroutines, stacked by class; that of a goroutine has a colour for each state.

const goroutines = {
	row: 16, label: 240, rows: [], focus: null, most: 400,

	prepare() {
		this.start = new Int32Array(G.gRuns.length + 1);
		for (let i = 0; i < G.gRuns.length; i++) this.start[i + 1] = this.start[i] + G.gRuns[i];
		this.byGroup = D.groups.map(() => []);
		for (let i = 0; i < G.gGroup.length; i++) this.byGroup[G.gGroup[i]].push(i);
		this.records = D.groups.map(() => []);
		for (let r = 0; r < D.recGroup.length; r++) this.records[D.recGroup[r]].push(r);
	},

	// groups returns the groups that have time, those with the most first.
	groups() {
		const time = new Float64Array(D.groups.length);
		for (const s of sumsOfAllGroups()) for (let r = 0; r < s.record.length; r++) time[D.recGroup[r]] += s.record[r];
		return D.groups.map((_, g) => g).filter((g) => time[g] > 0).sort((a, b) => time[b] - time[a]).map((g) => ({group: g, time: time[g]}));
	},

	isOpen(g) { return S.folded.includes(g) !== this.byGroup[g].length <= 4; },
	fold(g) { change({folded: S.folded.includes(g) ? S.folded.filter((f) => f !== g) : [...S.folded, g]}); },

	foldAll() {
		const list = this.groups().map((x) => x.group), open = list.some((g) => this.byGroup[g].length && this.isOpen(g));
		change({folded: list.filter((g) => open ? this.byGroup[g].length <= 4 : this.byGroup[g].length > 4)});
	},

	// layout returns the rows that are shown: of groups, and of the goroutines of those that are open.
	layout() {
		const out = [];
		this.left = 0;
		for (const {group, time} of this.groups()) {
			out.push({group, time, goroutine: -1});
			if (!this.isOpen(group)) continue;
			const [from, to] = strip.view();
			for (const i of this.byGroup[group]) {
				if (G.gStart[i] > to || this.end(i) < from) continue;
				if (out.length < this.most) out.push({group, time: 0, goroutine: i});
				else this.left++;
			}
		}
		return out;
	},

	end(i) {
		if (!this.ends) {
			this.ends = new Float64Array(G.gRuns.length);
			for (let g = 0; g < G.gRuns.length; g++) {
				this.ends[g] = G.gStart[g];
				for (let k = this.start[g]; k < this.start[g + 1]; k++) this.ends[g] += G.runLength[k];
			}
		}
		return this.ends[i];
	},

	draw() {
		const canvas = byId('lives');
		this.label = Math.max(130, Math.min(300, canvas.clientWidth * 0.25));
		this.rows = this.layout();
		const {g, width} = fit(canvas, Math.max(1, this.rows.length) * this.row + 18);
		g.textBaseline = 'middle';
		const scroll = byId('lives-scroll'), seen = [scroll.scrollTop / this.row - 20, (scroll.scrollTop + scroll.clientHeight) / this.row + 20];
		this.rows.forEach((r, i) => {
			const y = i * this.row;
			if (i < seen[0] || i > seen[1]) return; // drawn when it is scrolled to
			if (r.goroutine < 0) this.group(g, r, y, width);
			else this.life(g, r.goroutine, y, width);
			const chosen = r.goroutine < 0 ? S.group === r.group && S.goroutine < 0 : S.goroutine === r.goroutine;
			if (!chosen && !(this.focus && this.focus.group === r.group && this.focus.goroutine === r.goroutine)) return;
			g.strokeStyle = colours[chosen ? '--accent' : '--text'];
			g.lineWidth = 2;
			g.strokeRect(1, y + 1, width - 2, this.row - 2);
		});
		for (const [range, colour] of [[S.range, '--accent'], [S.second, '--mark']]) {
			if (!range) continue;
			const a = Math.max(this.label, this.xAt(range[0])), b = Math.min(width, this.xAt(range[1]));
			g.fillStyle = colours[colour];
			for (const x of [a, b]) if (b > a) g.fillRect(x - 0.5, 0, 1.5, this.rows.length * this.row);
		}
		this.axis(g, width, this.rows.length * this.row);
		byId('lives-note').textContent = this.left ? `${this.left.toLocaleString('en-US')} more goroutines are not drawn: fold groups, or zoom the time.` : nothing();
		this.describe();
		this.twin();
	},

	xAt(us) {
		const [from, to] = strip.view();
		return this.label + (us - from) / (to - from) * (byId('lives').clientWidth - this.label);
	},

	axis(g, width, y) {
		const [from, to] = strip.view(), step = niceStep((to - from) / Math.max(2, (width - this.label) / 90));
		g.font = '11px system-ui, "DejaVu Sans", sans-serif';
		g.textAlign = 'left';
		let free = 0; // up to there is text
		for (const [i, side] of head.sides.entries()) {
			const most = i + 1 < head.sides.length ? this.xAt(head.sides[i + 1].from_us) : width;
			for (let t = Math.max(side.from_us, side.from_us + Math.ceil((from - side.from_us) / step) * step); t <= Math.min(to, side.to_us); t += step) {
				const x = this.xAt(t), text = seconds(t - side.from_us);
				g.fillStyle = colours['--line'];
				g.fillRect(x, y, 1, 5);
				g.fillStyle = colours['--dim'];
				const end = x + g.measureText(text).width + 4;
				if (end > most || x < free) continue;
				free = end;
				g.fillText(text, x + 3, y + 10);
			}
		}
	},

	// text writes at most so many pixels.
	text(g, text, x, y, room) {
		const letter = this.letter ||= g.measureText('n').width;
		if (text.length * letter > room) {
			const w = g.measureText(text).width;
			if (w > room) text = text.slice(0, Math.max(0, Math.floor(text.length * room / w) - 1)) + '…';
		}
		g.fillText(text, x, y + this.row / 2);
	},

	group(g, r, y, width) {
		const n = this.byGroup[r.group].length, all = G.members[r.group] || 0;
		g.fillStyle = colours['--panel'];
		g.fillRect(0, y, width, this.row - 1);
		g.font = '12px system-ui, "DejaVu Sans", sans-serif';
		g.fillStyle = colours['--text'];
		g.textAlign = 'left';
		const count = all > 1 ? ' ×' + all.toLocaleString('en-US') : '', room = this.label - 26;
		const w = g.measureText(count).width;
		g.fillText(n ? this.isOpen(r.group) ? '▾' : '▸' : ' ', 4, y + this.row / 2);
		this.text(g, shortName(groupName(r.group)), 16, y, room - w);
		g.textAlign = 'right';
		g.fillText(count, this.label - 4, y + this.row / 2);
		const {list, most} = this.course(r.group, Math.max(1, Math.floor(width - this.label)));
		if (!most) return;
		areas(g, this.label, y + this.row - 1, (this.row - 2) / most, list);
	},

	// bins returns how many goroutines of a group were in each class, in at most 8192 equal parts of the time: {class: numbers}.
	bins(group) {
		const key = String([S.idle, S.apart]);
		if (key !== this.binsKey) {
			this.binsKey = key;
			this.groupBins = new Map();
		}
		if (this.groupBins.has(group)) return this.groupBins.get(group);
		const each = Math.ceil(D.steps / 8192), n = Math.ceil(D.steps / each), out = new Map(); // steps of a part
		for (const r of this.records[group]) {
			if (leftOut(D.recClass[r])) continue;
			const c = D.recClass[r];
			if (!out.has(c)) out.set(c, {values: new Float64Array(n + 1), rise: new Float64Array(n + 2)});
			const {values, rise} = out.get(c);
			for (let e = D.first[r]; e < D.first[r + 1]; e++) {
				const step = D.evStep[e], i = Math.floor(step / each), d = D.evDiff[e];
				values[i] += D.evPart[e] / D.width / each;
				if (!d) continue;
				values[i] += d * (1 - (step - i * each) / each);
				rise[i + 1] += d;
			}
		}
		for (const x of out.values()) {
			let height = 0;
			for (let i = 0; i < n; i++) x.values[i] += height += x.rise[i];
		}
		const b = {each: each * D.width, classes: [...out].sort((x, y) => x[0] - y[0]).map(([c, x]) => [c, x.values])};
		this.groupBins.set(group, b);
		return b;
	},

	// course returns the same for columns: a list of [class, numbers], and the most that there are at once.
	course(group, columns) {
		const [from, to] = strip.view(), b = this.bins(group), wide = (to - from) / columns, sum = new Float64Array(columns);
		const list = b.classes.map(([c, values]) => {
			const out = new Float64Array(columns);
			for (let x = 0; x < columns; x++) {
				const i = Math.floor((from + x * wide) / b.each), j = Math.max(i + 1, Math.floor((from + (x + 1) * wide) / b.each));
				let v = 0;
				for (let k = i; k < j && k < values.length; k++) v += values[k];
				sum[x] += out[x] = Math.max(0, v / (j - i));
			}
			return [c, out];
		});
		return {list, most: sum.reduce((a, v) => Math.max(a, v), 0)};
	},

	life(g, i, y, width) {
		g.font = '11px system-ui, "DejaVu Sans", sans-serif';
		g.textAlign = 'left';
		g.fillStyle = colours['--dim'];
		const label = G.labels[G.gLabels[i]];
		this.text(g, `${G.gId[i]}${label ? '  ' + label : ''}`, 28, y, this.label - 32);
		const found = matches();
		let t = G.gStart[i], at = -1, most = 0, best = 0; // several runs may be in one pixel: the longest is drawn
		const flush = () => {
			if (at < 0) return;
			g.fillStyle = best;
			g.fillRect(at, y + 2, 1, this.row - 4);
			at = -1;
		};
		for (let k = this.start[i]; k < this.start[i + 1]; k++) {
			const from = t, r = G.runRecord[k];
			t += G.runLength[k];
			if (r < 0 || leftOut(D.recClass[r])) continue;
			const a = Math.max(this.label, this.xAt(from)), b = Math.min(width, this.xAt(t));
			if (b <= this.label || a >= width) continue;
			let fill = classColour(D.recClass[r]);
			if (found && !found[D.recNode[r]]) fill = mix(fill, colours['--ground'], 0.75);
			if (b - a < 1) {
				const x = Math.floor(a);
				if (x !== at) {
					flush();
					at = x;
					most = 0;
				}
				if (G.runLength[k] > most) {
					most = G.runLength[k];
					best = fill;
				}
				continue;
			}
			flush();
			g.fillStyle = fill;
			g.fillRect(a, y + 2, b - a - (b - a > 4 ? 0.5 : 0), this.row - 4);
			if (b - a > 50) {
				g.font = '11px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace';
				g.fillStyle = ink(fill);
				const n = D.own[D.recNode[r]];
				let text = n > 0 ? shortName(fnName(D.fn[n])) : '';
				const room = Math.floor((b - a - 6) / 6.7);
				if (text.length > room) text = text.slice(0, room - 1) + '…';
				g.fillText(text, a + 3, y + this.row / 2);
			}
		}
		flush();
	},

	at(e) { return this.rows[Math.floor(e.offsetY / this.row)] || null; },

	// runAt returns the run of a goroutine at a time, -1 if there is none.
	runAt(i, time) {
		let t = G.gStart[i];
		for (let k = this.start[i]; k < this.start[i + 1]; k++) {
			if (time >= t && time < t + G.runLength[k]) return k;
			t += G.runLength[k];
		}
		return -1;
	},

	lines(r, time) {
		const out = [];
		if (r.goroutine < 0) {
			const n = this.byGroup[r.group].length, all = G.members[r.group] || 0;
			out.push(groupName(r.group), plural(all, 'goroutine') + (n < all ? `, ${n.toLocaleString('en-US')} with a row` : ''), `${duration(r.time)} in the range${S.second ? 's' : ''}`);
			return out;
		}
		const i = r.goroutine, label = G.labels[G.gLabels[i]];
		out.push(`goroutine ${G.gId[i]}` + (G.gParent[i] ? `, created by goroutine ${G.gParent[i]}` : ''), `at ${groupName(r.group)}`);
		if (label) out.push(label);
		out.push(`seen from ${moment(G.gStart[i])} to ${moment(this.end(i))}`);
		const k = time === null ? -1 : this.runAt(i, time);
		if (k < 0 || G.runRecord[k] < 0) return out;
		const rec = G.runRecord[k];
		out.push(`${moment(time)}: ${D.states[D.recState[rec]]} for ${duration(G.runLength[k])}` + (D.recIdle[rec] ? ', idle' : D.recApart[rec] ? ', set apart' : ''));
		let depth = 0;
		for (let n = D.recNode[rec]; n > 0 && depth < 12; n = D.caller[n], depth++) out.push('  ' + fnName(D.fn[n]) + '  ' + place(fnFile(D.fn[n]), D.line[n]));
		return out;
	},

	describe() { byId('lives-status').textContent = this.focus ? this.lines(this.focus, null).join('  ·  ') : ''; },

	choose(r) {
		this.focus = r;
		nudge('lives');
		if (r.goroutine >= 0) change({goroutine: S.goroutine === r.goroutine ? -1 : r.goroutine, group: -1, zoom: []});
		else change({group: S.group === r.group ? -1 : r.group, goroutine: -1, zoom: []});
	},

	begin() {
		const c = byId('lives');
		c.addEventListener('click', (e) => {
			const r = this.at(e);
			if (!r) return;
			if (r.goroutine < 0 && e.offsetX < 16) {
				this.focus = r;
				this.fold(r.group);
			} else this.choose(r);
		});
		c.addEventListener('pointermove', (e) => {
			const r = this.at(e), [from, to] = strip.view();
			tip(r && this.lines(r, e.offsetX < this.label ? null : from + (to - from) * (e.offsetX - this.label) / (c.clientWidth - this.label)), e);
		});
		c.addEventListener('pointerleave', () => tip(null));
		c.addEventListener('keydown', (e) => {
			let i = this.rows.findIndex((r) => this.focus && r.group === this.focus.group && r.goroutine === this.focus.goroutine);
			const r = this.rows[i];
			if (e.ctrlKey || e.metaKey || e.altKey) return;
			if (e.key === 'ArrowDown') i = Math.min(this.rows.length - 1, i + 1);
			else if (e.key === 'ArrowUp') i = Math.max(0, i - 1);
			else if (e.key === 'Home') i = 0;
			else if (e.key === 'Enter' && r) this.choose(r);
			else if (e.key === ' ' && r) this.fold(r.group);
			else if (e.key === 'ArrowRight' && r && !this.isOpen(r.group)) this.fold(r.group);
			else if (e.key === 'ArrowLeft' && r && this.isOpen(r.group)) {
				this.focus = {...r, goroutine: -1};
				this.fold(r.group);
			} else return;
			e.preventDefault();
			if (!['ArrowDown', 'ArrowUp', 'Home'].includes(e.key)) return;
			this.focus = this.rows[i];
			byId('lives-scroll').scrollTop = Math.max(0, i * this.row - 60);
			nudge('lives');
		});
		let at = 0;
		byId('lives-scroll').addEventListener('scroll', () => {
			const top = byId('lives-scroll').scrollTop;
			if (Math.abs(top - at) < 10 * this.row) return;
			at = top;
			nudge('lives');
		});
		byId('lives-twin').addEventListener('toggle', () => this.twin());
		byId('fold').addEventListener('click', () => this.foldAll());
	},

	// twin is the rows as a table.
	twin() {
		const d = byId('lives-twin');
		if (!d.open) return;
		put(d.querySelector('.scroll'), el('table', null,
			el('thead', null, el('tr', null, ...[['Goroutines', 'name'], ['Number', ''], ['Time', ''], ['First seen', ''], ['Last seen', ''], ['Seen for', '']].map(([t, c]) => el('th', {scope: 'col', class: c || null}, t)))),
			el('tbody', null, ...this.rows.map((r) => {
				const i = r.goroutine, n = this.byGroup[r.group].length;
				const name = el('td', {class: 'name'}, el('button', {'data-key': `row${r.group}.${i}`, title: 'show only this', onclick: () => this.choose(r)}, i < 0 ? groupName(r.group) : `goroutine ${G.gId[i]} ${G.labels[G.gLabels[i]]}`));
				if (i < 0 && n) name.append(' ', el('button', {class: 'plain', 'data-key': `fold${r.group}`, 'aria-expanded': String(this.isOpen(r.group)), onclick: () => this.fold(r.group)}, this.isOpen(r.group) ? 'fold' : 'unfold'));
				return el('tr', {'aria-selected': String(i < 0 ? S.group === r.group : S.goroutine === i)}, name, ...(i < 0 ? [(G.members[r.group] || 0).toLocaleString('en-US'), duration(r.time), '', '', ''] :
					['', '', moment(G.gStart[i]), moment(this.end(i)), duration(this.end(i) - G.gStart[i])]).map((text) => el('td', null, text)));
			}))));
	},

	// time returns the time of records in the runs of a goroutine between two times.
	time(i, from, to) {
		const out = new Float64Array(D.recNode.length), side = head.sides[G.gSide[i]];
		if (from <= side.from_us && to >= side.to_us) out[G.gBeforeRecord[i]] += G.gBefore[i];
		let t = G.gStart[i];
		for (let k = this.start[i]; k < this.start[i + 1]; k++) {
			const r = G.runRecord[k];
			if (r >= 0) out[r] += Math.max(0, Math.min(to, t + G.runLength[k]) - Math.max(from, t));
			t += G.runLength[k];
		}
		return out;
	},
};

let groupSums = [], groupSumsKey = '';

// sumsOfAllGroups returns the sums of the range, and of the second one, as if no group and no goroutine were chosen.
function sumsOfAllGroups() {
	if (S.group < 0 && S.goroutine < 0) return sums().filter(Boolean);
	const key = JSON.stringify([S.range, S.second, S.idle, S.apart, S.weight, S.removed, S.keep]);
	if (key !== groupSumsKey) {
		const {group, goroutine} = S;
		S.group = S.goroutine = -1;
		groupSums = S.second ? [new Sums(S.range), new Sums(S.second)] : [new Sums(S.range)];
		Object.assign(S, {group, goroutine});
		groupSumsKey = key;
	}
	return groupSums;
}
