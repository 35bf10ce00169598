// The tables below the graphs.

const tables = {
	names: [['functions', 'Functions']],
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
			key ? el('button', {'data-key': 'sort' + key, onclick: () => change({sort: key})}, name + (S.sort === key ? ' ↓' : '')) : name))));
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
		list.sort((x, y) => value(y) - value(x) || rows.total[y] - rows.total[x] || (fnName(x) < fnName(y) ? -1 : 1));
		const count = list.length;
		const match = found && list.filter((fn) => found(fnName(fn), fnFile(fn), -1));
		if (match) list = match;
		const body = list.slice(0, this.shown).map((fn) => {
			const cells = b ? [
				el('td', {'data-ns': nanos(rows.total[fn])}, digits(rate(a, rows.total[fn]))), el('td', {'data-ns': nanos(other.total[fn])}, digits(rate(b, other.total[fn]))),
				el('td', {class: !isSignificant(fn) ? 'same' : delta(fn) > 0 ? 'more' : 'less'}, (delta(fn) > 0 ? '+' : delta(fn) < 0 ? '−' : '') + digits(Math.abs(delta(fn))) + (isSignificant(fn) ? '' : ' ~')),
			] : [
				el('td', {'data-ns': nanos(rows.self[fn])}, duration(rows.self[fn])), el('td', null, percent(rows.self[fn], a.all)), this.meter(rows.self[fn], a.all),
				el('td', {'data-ns': nanos(rows.total[fn])}, duration(rows.total[fn])), el('td', {class: 'extra'}, percent(rows.total[fn], a.all)), el('td', {class: 'extra', 'data-ns': nanos(rows.selfCPU[fn])}, duration(rows.selfCPU[fn])),
			];
			return el('tr', {'aria-selected': String(S.selected === fn), class: match ? 'match' : null, 'data-file': fnFile(fn)}, ...cells,
				el('td', {class: 'name'}, el('button', {'data-key': 'fn' + fn, title: 'callers and callees', onclick: () => change({selected: S.selected === fn ? -1 : fn, zoom: []})}, fnName(fn)), ' ',
					el('span', {class: 'at'}, this.range(fn))));
		});
		const columns = b ? [['', 'A'], ['', 'B'], ['', 'Change'], ['', 'Function: goroutines in it on average', 'name']] :
			[['self', 'Self'], ['', '%'], ['', '', 'extra'], ['total', 'Total'], ['', '%', 'extra'], ['cpu', 'CPU self', 'extra'], ['', 'Function', 'name']];
		if (!count) return put(panel, el('p', null, nothing()));
		put(panel, el('table', {id: 'functions', 'data-all': nanos(a.all)}, this.head(columns), el('tbody', null, ...body)), this.rest(list.length, count));
	},

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

	meter(part, whole) {
		const bar = el('i');
		bar.style.width = (whole > 0 ? Math.max(0, Math.min(100, 100 * part / whole)) : 0) + '%';
		return el('td', {class: 'extra'}, el('span', {class: 'meter', 'aria-hidden': 'true'}, bar));
	},

	rest(rows, all) {
		const list = [];
		if (rows > this.shown) list.push(el('button', {'data-key': 'more', onclick: () => { this.shown = Infinity; nudge('tables'); }}, `Show all ${rows.toLocaleString('en-US')} rows`));
		if (all > rows) list.push(el('span', {class: 'same'}, ` ${plural(all - rows, 'row')} left out by the search`));
		return el('p', null, ...list);
	},
};
