// The tables beside the flame graph.

const tables = {
	names: [['blocked', 'Blocked at'], ['locks', 'Locks'], ['requests', 'Requests'], ['leaks', 'Leaks'], ['instant', 'Stacks'], ['functions', 'Functions'], ['lines', 'Lines']],
	shown: 100,

	draw() {
		put(byId('tabs'), ...this.names.map(([id, name]) => el('button', {role: 'tab', id: 'tab-' + id, 'data-key': id, 'aria-selected': String(S.tab === id), onclick: () => change({tab: id})}, name)));
		const panel = byId('table');
		panel.setAttribute('aria-labelledby', 'tab-' + S.tab);
		this[S.tab](panel);
	},

	// head returns the head of a table. Columns are [key, name]; those with a key sort.
	head(columns) {
		return el('thead', null, el('tr', null, ...columns.map(([key, name, cls]) => el('th', {scope: 'col', class: cls || null, 'aria-sort': key && S.sort === key ? 'descending' : null},
			key ? el('button', {'data-key': 'sort' + key, onclick: () => change({sort: key})}, name + (S.sort === key ? ' ↓' : '')) : name || el('span', {class: 'hidden'}, 'by state')))));
	},

	functions(panel) {
		const [a, b] = sums(), rows = a.functions(), other = b && b.functions(), found = matcher(S.query);
		let list = [];
		for (let fn = 0; fn < rows.total.length; fn++) if (rows.total[fn] || other && other.total[fn]) list.push(fn);
		const rate = (s, v) => s.length ? v / s.length : 0;
		const delta = (fn) => rate(b, other.total[fn]) - rate(a, rows.total[fn]);
		const by = {
			self: (fn) => rows.self[fn], total: (fn) => rows.total[fn], cpu: (fn) => rows.selfCPU[fn],
			delta: (fn) => b ? Math.abs(delta(fn)) : rows.self[fn],
		};
		const value = by[b ? 'delta' : Object.hasOwn(by, S.sort) ? S.sort : 'self'];
		list.sort((x, y) => this.isWait(x) - this.isWait(y) || value(y) - value(x) || rows.total[y] - rows.total[x] || (fnName(x) < fnName(y) ? -1 : 1));
		const count = list.length, classes = this.classes(a, D.fnName.length, (n) => D.fn[n]);
		const match = found && list.filter((fn) => found(fnName(fn), fnFile(fn), -1));
		if (match) list = match;
		let parted = false;
		const body = list.slice(0, this.shown).flatMap((fn) => {
			const cells = b ? [
				el('td', {'data-ns': nanos(rows.total[fn])}, digits(rate(a, rows.total[fn]))), el('td', {'data-ns': nanos(other.total[fn])}, digits(rate(b, other.total[fn]))),
				el('td', {class: !isSignificant(fn) ? 'same' : delta(fn) > 0 ? 'more' : 'less'}, (delta(fn) > 0 ? '+' : delta(fn) < 0 ? '−' : '') + digits(Math.abs(delta(fn))) + (isSignificant(fn) ? '' : ' ~')),
			] : [
				el('td', {'data-ns': nanos(rows.self[fn])}, duration(rows.self[fn])), el('td', null, percent(rows.self[fn], a.all)), this.meter(classes[fn], a.all),
				el('td', {'data-ns': nanos(rows.total[fn])}, duration(rows.total[fn])), el('td', {class: 'extra'}, percent(rows.total[fn], a.all)), el('td', {class: 'extra', 'data-ns': nanos(rows.selfCPU[fn])}, duration(rows.selfCPU[fn])),
			];
			const part = this.isWait(fn) && !parted ? [el('tr', {class: 'part'}, el('td', {colspan: '7'}, 'Waits, which are no functions:'))] : [];
			parted ||= part.length > 0;
			return [...part, el('tr', {'aria-selected': String(S.selected === fn), class: match ? 'match' : null, 'data-file': fnFile(fn)}, ...cells,
				el('td', {class: 'name'}, el('button', {'data-key': 'fn' + fn, title: 'callers and callees', onclick: () => change({selected: S.selected === fn ? -1 : fn, zoom: []})}, ...broken(fnName(fn))), ' ',
					el('span', {class: 'at'}, this.range(fn))))];
		});
		const columns = b ? [['', 'A'], ['', 'B'], ['', 'Change'], ['', 'Function: goroutines in it on average', 'name']] :
			[['self', 'Self'], ['', '% of all'], ['', '', 'extra bars'], ['total', 'Total'], ['', '% of all', 'extra'], ['cpu', 'CPU self', 'extra'], ['', 'Function', 'name']];
		if (!count) return put(panel, el('p', null, nothing()));
		put(panel, el('table', {id: 'functions', 'data-all': nanos(a.all)}, this.head(columns), el('tbody', null, ...body)), this.rest(list.length, count));
	},

	// isWait reports whether a function is none, but says what goroutines waited for.
	isWait(fn) { return this.waits[fn] ||= fnFile(fn) === '' && (fnName(fn).startsWith('[runnable') || D.states.some((s) => fnName(fn) === `[${s}]`)) ? 1 : -1, this.waits[fn] > 0; },
	waits: {},

	// range returns where a function is in the source.
	range(fn) {
		if (!fnFile(fn)) return '';
		if (!this.first) {
			this.first = new Int32Array(D.fnName.length);
			this.last = new Int32Array(D.fnName.length);
			for (let f = 0; f < D.frameFn.length; f++) {
				const l = D.frameLine[f], of = D.frameFn[f];
				if (!l) continue;
				this.first[of] = this.first[of] ? Math.min(this.first[of], l) : l;
				this.last[of] = Math.max(this.last[of], l);
			}
		}
		return place(fnFile(fn), this.first[fn]) + (this.last[fn] > this.first[fn] ? '–' + this.last[fn] : '');
	},

	// classes returns the time of rows by class; of has the row of a stack's innermost frame.
	classes(s, rows, of) {
		const out = Array.from({length: rows}, () => null);
		for (let r = 0; r < s.record.length; r++) {
			const n = D.recNode[r];
			if (s.record[r] && n) (out[of(n)] ||= D.classes.map(() => 0))[D.recClass[r]] += s.record[r];
		}
		return out;
	},

	// meter shows the time of a row by class, in the colours of the states.
	meter(times, whole) {
		const bar = el('span', {class: 'meter', 'aria-hidden': 'true'});
		(times || []).forEach((v, c) => {
			if (!(v > 0) || !(whole > 0)) return;
			const part = el('i');
			part.style.width = 100 * v / whole + '%';
			part.style.background = classColour(c);
			bar.append(part);
		});
		return el('td', {class: 'extra bars'}, bar);
	},

	// state is a state with its colour.
	state(name, c) {
		const mark = el('span', {class: 'swatch state', 'aria-hidden': 'true'});
		mark.style.background = classColour(c);
		return el('span', null, mark, `[${name}]`);
	},

	rest(rows, all) {
		const list = [];
		if (rows > this.shown) list.push(el('button', {'data-key': 'more', onclick: () => { this.shown = Infinity; nudge('tables'); }}, `Show all ${rows.toLocaleString('en-US')} rows`));
		if (all > rows) list.push(el('span', {class: 'same'}, ` ${plural(all - rows, 'row')} left out by the search`));
		return el('p', null, ...list);
	},
};
