// The table of lines.

// lineIds numbers the lines: those of a file by file and line, waits by their names, as gotach report --by line does.
function lineIds() {
	if (D.lineOf) return;
	const of = new Map();
	D.lineOf = new Int32Array(D.frameFn.length);
	D.lineFrame = []; // a frame of each line
	for (let f = 0; f < D.frameFn.length; f++) {
		const fn = D.frameFn[f], key = fnFile(fn) ? D.fnFile[fn] + ':' + D.frameLine[f] : '[' + D.fnName[fn];
		if (!of.has(key)) {
			of.set(key, of.size);
			D.lineFrame.push(f);
		}
		D.lineOf[f] = of.get(key);
	}
	D.outermostLine = new Uint8Array(D.caller.length); // the line is not in the stack of the caller
	for (let n = 1; n < D.caller.length; n++) {
		D.outermostLine[n] = 1;
		for (let up = D.caller[n]; up > 0; up = D.caller[up]) {
			if (D.lineOf[D.frame[up]] === D.lineOf[D.frame[n]]) {
				D.outermostLine[n] = 0;
				break;
			}
		}
	}
}

tables.lines = function (panel) {
	lineIds();
	const [a, b] = sums(), count = D.lineFrame.length, test = matcher(S.query);
	const add = (s) => {
		const out = {self: new Float64Array(count), total: new Float64Array(count), cpu: new Float64Array(count)};
		for (let n = 1; n < D.caller.length; n++) {
			if (!s.total[n]) continue;
			const l = D.lineOf[D.frame[n]];
			out.self[l] += s.self[n];
			out.cpu[l] += s.cpu[n];
			if (D.outermostLine[n]) out.total[l] += s.total[n];
		}
		return out;
	};
	const rows = add(a), other = b && add(b), classes = this.classes(a, count, (n) => D.lineOf[D.frame[n]]);
	const list = [];
	for (let l = 0; l < count; l++) {
		const f = D.lineFrame[l], fn = D.frameFn[f];
		if ((rows.total[l] || other && other.total[l]) && (!test || test(fnName(fn), fnFile(fn), D.frameLine[f]))) list.push(l);
	}
	const key = {self: 'self', total: 'total', cpu: 'cpu'}[S.sort] || 'self';
	list.sort((x, y) => rows[key][y] - rows[key][x] || rows.total[y] - rows.total[x] || x - y);
	const rate = (s, v) => s.length ? v / s.length : 0;
	const body = list.slice(0, this.shown).map((l) => {
		const f = D.lineFrame[l], fn = D.frameFn[f];
		const cells = b ? [el('td', null, digits(rate(a, rows.total[l]))), el('td', null, digits(rate(b, other.total[l])))] :
			[el('td', {'data-ns': nanos(rows.self[l])}, duration(rows.self[l])), el('td', null, percent(rows.self[l], a.all)), this.meter(classes[l], a.all),
				el('td', {'data-ns': nanos(rows.total[l])}, duration(rows.total[l])), el('td', {class: 'extra'}, percent(rows.total[l], a.all)), el('td', {class: 'extra', 'data-ns': nanos(rows.cpu[l])}, duration(rows.cpu[l]))];
		return el('tr', {'data-file': fnFile(fn), 'data-line': D.frameLine[f]}, ...cells, el('td', {class: 'name'},
			el('button', {'data-key': 'line' + l, title: 'callers and callees of the function', onclick: () => change({selected: fn, zoom: []})}, place(fnFile(fn), D.frameLine[f]) || fnName(fn)), ' ',
			el('span', {class: 'at'}, ...broken(fnFile(fn) ? fnName(fn) : ''))));
	});
	const columns = b ? [['', 'A'], ['', 'B'], ['', 'Line: goroutines at it on average', 'name']] : [['self', 'Self'], ['', '% of all'], ['', '', 'extra bars'], ['total', 'Total'], ['', '% of all', 'extra'], ['cpu', 'CPU self', 'extra'], ['', 'Line', 'name']];
	if (!list.length) return put(panel, el('p', null, nothing() || 'No line matches the search.'));
	put(panel, el('table', {id: 'lines'}, this.head(columns), el('tbody', null, ...body)), this.rest(list.length, list.length));
};
