// The table of an instant: what every goroutine did then, those with equal stacks together.

const instant = {
	open: new Set(), // records whose stacks are shown

	// find returns the goroutines of the instant by record, the most first: {record, list: [goroutine, µs since it came there]}. The
	// others are counted: idle ones and those set apart that are left out, and those of which no sample tells what they did.
	find(at) {
		const rows = new Map(), out = {rows: [], goroutines: 0, idle: 0, apart: 0, unknown: 0};
		for (let i = 0; i < G.gRuns.length; i++) {
			if (G.gStart[i] > at || goroutines.end(i) <= at || S.group >= 0 && G.gGroup[i] !== S.group || S.goroutine >= 0 && S.goroutine !== i) continue;
			let t = G.gStart[i], k = goroutines.start[i];
			while (t + G.runLength[k] <= at) t += G.runLength[k++];
			const r = G.runRecord[k];
			if (r < 0) out.unknown++;
			else if (leftOut(D.recClass[r])) out[switchOf(D.recClass[r])]++;
			else {
				out.goroutines++;
				if (!rows.has(r)) rows.set(r, {record: r, list: [], longest: 0});
				const row = rows.get(r);
				row.list.push([i, at - t]);
				row.longest = Math.max(row.longest, at - t);
			}
		}
		const found = matches();
		out.rows = [...rows.values()].filter((x) => !found || found[D.recNode[x.record]]).sort((x, y) => y.list.length - x.list.length || y.longest - x.longest || x.record - y.record);
		return out;
	},

	// show lists the goroutines of a time.
	show(us) { change({at: Math.round(Math.max(0, Math.min(D.end, us))), tab: 'instant'}); },

	// names returns the functions of a stack, innermost first.
	names(node) {
		const out = [];
		for (let n = node; n > 0; n = D.caller[n]) if (fnFile(D.fn[n])) out.push(fnName(D.fn[n]));
		return out;
	},

	// frames returns a stack as lines, innermost first. The program's own code stands out.
	frames(node) {
		const out = [];
		for (let n = node; n > 0; n = D.caller[n]) {
			const fn = D.fn[n], own = D.fnCode[fn] === 6, text = `${fnName(fn)}  ${place(fnFile(fn), D.line[n])}\n`;
			if (fnFile(fn)) out.push(own ? el('b', null, text) : el('span', {class: 'same'}, text));
		}
		return el('pre', {tabindex: '0', 'aria-label': 'stack'}, ...out);
	},
};

tables.instant = function (panel) {
	if (S.at < 0) return put(panel, el('p', null, 'A click on the time lists what every goroutine did then. ', el('button', {'data-key': 'middle', onclick: () => instant.show((strip.view()[0] + strip.view()[1]) / 2)}, 'In the middle')));
	const x = instant.find(S.at), step = Math.max(strip.width, (strip.view()[1] - strip.view()[0]) / 200);
	const side = sideAt(S.at), parts = [el('p', {id: 'instant-note'}, el('b', null, moment(S.at)), ` ${plural(x.goroutines, 'goroutine')}` +
		(x.idle ? `, ${x.idle.toLocaleString('en-US')} idle left out` : '') + (x.apart ? `, ${x.apart.toLocaleString('en-US')} set apart` : '') + (x.unknown ? `, ${x.unknown.toLocaleString('en-US')} not seen` : '') + ' ',
	el('button', {'data-key': 'earlier', title: 'earlier', 'aria-label': 'earlier', onclick: () => instant.show(S.at - step)}, '←'), ' ', el('button', {'data-key': 'later', title: 'later', 'aria-label': 'later', onclick: () => instant.show(S.at + step)}, '→')),
	el('p', {class: 'small'}, `As text: gotach stacks ${side.name} --at +${((S.at - side.from_us) / 1e6).toFixed(3)}s` + (head.left_out.some((t) => t.includes('goroutine')) ? '. Goroutines without a row of their own are not here.' : ''))];
	const body = x.rows.slice(0, this.shown).flatMap((row) => {
		const r = row.record, own = D.own[D.recNode[r]], open = instant.open.has(r), has = own > 0 && fnFile(D.fn[own]);
		const toggle = () => {
			if (!instant.open.delete(r)) instant.open.add(r);
			nudge('tables');
		};
		const line = el('tr', null, el('td', null, row.list.length.toLocaleString('en-US')), el('td', {'data-ns': nanos(row.longest)}, duration(row.longest)),
			el('td', {class: 'name'}, el('button', {'data-key': 'at' + r, 'aria-expanded': String(open), onclick: toggle}, ...broken(has ? fnName(D.fn[own]) : groupName(D.recGroup[r]))), ' ', el('span', {class: 'at'}, has ? place(fnFile(D.fn[own]), D.line[own]) : ''),
				el('div', {class: 'wait'}, this.state(D.states[D.recState[r]], D.recClass[r]))));
		if (!open) return [line];
		const list = row.list.slice(0, 50).map(([i, since]) => el('li', null, el('button', {class: 'plain', 'data-key': 'of' + i, title: 'show only this goroutine', onclick: () => change({goroutine: i, group: -1, zoom: []})}, `goroutine ${G.gId[i]}`), ` for ${duration(since)} ${G.labels[G.gLabels[i]]}`));
		return [line, el('tr', {class: 'detail'}, el('td', {colspan: '3'}, instant.frames(D.recNode[r]), el('p', {class: 'same'}, `created by ${groupName(D.recGroup[r])}`), el('ul', null, ...list), row.list.length > 50 && el('p', {class: 'same'}, `and ${plural(row.list.length - 50, 'other')}`)))];
	});
	put(panel, ...parts, el('table', {id: 'instant'}, this.head([['', 'Goroutines'], ['', 'For'], ['', 'Doing; a click shows the stack', 'name']]), el('tbody', null, ...body)), this.rest(x.rows.length, x.rows.length));
};
