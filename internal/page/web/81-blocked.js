// The table of where goroutines were blocked: the program's own line, and below it what waits there.

// blockedRows returns the time of waits by state and line of the program's own code: {key: {state, cls, node, time, other, rests}}.
function blockedRows() {
	const [a, b] = sums(), rows = new Map();
	for (let r = 0; r < D.recNode.length; r++) {
		const time = a.record[r], other = b ? b.record[r] : 0, cls = D.recClass[r];
		if (!time && !other || !isBlocked(r)) continue;
		const node = D.own[D.recNode[r]], has = node > 0 && fnFile(D.fn[node]) !== '';
		const key = `${D.recState[r]} ${has ? `${D.fn[node]}:${D.line[node]}` : ''} ${D.recRests[r]}`;
		let row = rows.get(key);
		if (!row) rows.set(key, row = {key, state: D.states[D.recState[r]], node: has ? node : 0, classes: D.classes.map(() => 0), time: 0, other: 0, rests: D.recRests[r]});
		row.time += time;
		row.other += other;
		row.classes[cls] += time;
		row.cls = cls;
	}
	return [...rows.values()];
}

// isBlocked reports whether a record is time in which goroutines waited for something else than a core.
function isBlocked(r) {
	const state = D.states[D.recState[r]];
	return !['running', 'no core', 'runnable', 'not seen', 'not recorded', ''].includes(state) && !D.recCPU[r] && D.groups[D.recGroup[r]] !== '[no goroutine]';
}

tables.blocked = function (panel) {
	const [a, b] = sums(), test = matcher(S.query), rate = (s, v) => s.length ? v / s.length : 0;
	const delta = (x) => rate(b, x.other) - rate(a, x.time);
	let rows = blockedRows();
	if (!rows.length) return put(panel, el('p', null, nothing() || 'No goroutine was blocked.'));
	const all = rows.reduce((sum, x) => sum + (x.rests ? 0 : x.time), 0), count = rows.length;
	if (test) rows = rows.filter((x) => test(`[${x.state}]`, '', -1) || x.node && test(fnName(D.fn[x.node]), fnFile(D.fn[x.node]), D.line[x.node]));
	rows.sort((x, y) => x.rests - y.rests || (b ? Math.abs(delta(y)) - Math.abs(delta(x)) : 0) || y.time - x.time || (x.key < y.key ? -1 : 1));
	const body = [];
	let parted = false;
	for (const x of rows.slice(0, this.shown)) {
		if (x.rests && !parted) {
			parted = true;
			body.push(el('tr', {class: 'part'}, el('td', {colspan: '4'}, 'At one place from begin to end:')));
		}
		const more = b && delta(x), cells = b ? [
			el('td', {'data-ns': nanos(x.time)}, digits(rate(a, x.time))), el('td', {'data-ns': nanos(x.other)}, digits(rate(b, x.other))),
			el('td', {class: more > 0 ? 'more' : 'less'}, (more > 0 ? '+' : more < 0 ? '−' : '') + digits(Math.abs(more))),
		] : [el('td', {'data-ns': nanos(x.time)}, duration(x.time)), el('td', null, x.rests ? '' : percent(x.time, all)), x.rests ? el('td', {class: 'extra bars'}) : this.meter(x.classes, all)];
		const fn = D.fn[x.node], chosen = x.node && S.selected === fn;
		const name = !x.node ? null : el('button', {'data-key': 'blocked' + x.key, title: 'callers and callees', onclick: () => change({selected: chosen ? -1 : fn, zoom: []})}, ...broken(fnName(fn)));
		body.push(el('tr', {'aria-selected': String(!!chosen), class: test ? 'match' : null, 'data-name': `[${x.state}]` + (x.node ? ' ' + fnName(fn) : ''), 'data-line': x.node ? String(D.line[x.node]) : ''}, ...cells,
			el('td', {class: 'name'}, name, name && ' ', name && el('span', {class: 'at'}, place(fnFile(fn), D.line[x.node])), el('div', {class: 'wait'}, this.state(x.state, x.cls)))));
	}
	const columns = b ? [['', 'A'], ['', 'B'], ['', 'Change'], ['', 'Blocked at: goroutines there on average', 'name']] : [['', 'Time'], ['', '% of waits'], ['', '', 'extra bars'], ['', 'Blocked at', 'name']];
	put(panel, el('table', {id: 'blocked', 'data-all': nanos(all)}, this.head(columns), el('tbody', null, ...body)), this.rest(rows.length, count));
};
