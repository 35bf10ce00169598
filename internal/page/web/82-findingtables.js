// The tables of locks, requests and leaks: what the commands of these names print.

const ns = (v) => duration(v / 1000);
const nsCell = (v, cls) => el('td', {'data-ns': String(v), class: cls || null}, ns(v));

// perSide writes findings, with a heading for each side if there are two. make also gets the time on the axis where the
// findings begin.
function perSide(panel, what, make) {
	const found = findings.of(what), parts = [el('p', {class: 'small', id: 'findings-note', role: 'status'}, found.note)];
	found.sides.forEach((side, i) => {
		if (found.sides.length > 1) parts.push(el('h2', null, `${'AB'[i]}: ${head.sides[i].name}`));
		parts.push(...make(side, head.sides[i].from_us + (found.range ? found.range[0] : 0)));
	});
	put(panel, ...parts);
}

// placeButton is a function and its place; it shows the callers of the function.
function placeButton(name, file, line, key) {
	const fn = D.fnName.findIndex((s, f) => D.strings[s] === name && (!file || fnFile(f) === file));
	const at = el('span', {class: 'at'}, place(file, line));
	if (fn < 0) return [name, ' ', at];
	return [el('button', {'data-key': key, title: 'callers and callees', onclick: () => change({selected: fn, zoom: []})}, name), ' ', at];
}

// headings makes the head of a table. Columns whose name begins with ~ are left out where there is little room; a name that begins with ^ is
// not seen.
const headings = (...names) => el('thead', null, el('tr', null, ...names.map((n, i) => el('th', {scope: 'col', class: i === names.length - 1 ? 'name' : n[0] === '~' ? 'extra' : null}, n[0] === '^' ? el('span', {class: 'hidden'}, n.slice(1)) : n.replace('~', '')))));

tables.locks = function (panel) {
	let index = 0;
	perSide(panel, 'locks', (side) => {
		const list = side.locks.locks;
		if (!list.length) return [el('p', null, 'No goroutine was seen waiting for a lock or channel.')];
		const body = [];
		for (const x of list) {
			const id = index++, open = S.lock === id;
			body.push(el('tr', {'aria-selected': String(open)}, nsCell(x.waited_ns), el('td', {class: 'extra'}, x.goroutines.toLocaleString('en-US')), el('td', null, (x.at_least ? '≥' : '') + x.waits.toLocaleString('en-US')), x.longest_ns_below ? el('td', null, '<' + ns(x.longest_ns_below)) : nsCell(x.longest_ns),
				el('td', {class: 'name'}, el('button', {'data-key': 'lock' + id, 'aria-expanded': String(open), onclick: () => change({lock: open ? -1 : id})}, x.name), ' ', el('span', {class: 'at'}, x.kind + (x.object ? ' ' + x.object : '')))));
			if (open) body.push(el('tr', {class: 'detail'}, el('td', {colspan: '5'}, ...this.lock(x, id))));
		}
		return [el('table', {class: 'locks'}, headings('Waited', '~Goroutines', 'Waits', 'Longest', 'Lock or channel: select one to see who held it'), el('tbody', null, ...body))];
	});
};

// lock returns what is known of a lock: where goroutines waited, and what the holders did meanwhile.
tables.lock = function (x, id) {
	const out = [el('h2', null, 'Waited at')];
	out.push(el('table', null, el('tbody', null, ...x.sites.map((s, i) => el('tr', null, nsCell(s.waited_ns), el('td', null, (x.at_least ? '≥' : '') + plural(s.waits, 'wait')), el('td', {class: 'name'}, `[${s.reason}] `, ...placeButton(s.func, s.file, s.line, `site${id}.${i}`)))))));
	const h = x.holder;
	if (!h) return out;
	out.push(el('h2', null, 'Held by'), el('p', {class: 'same'}, `${percent(h.seen_ns, x.waited_ns)} seen, ${percent(h.inferred_ns, x.waited_ns)} inferred, ${percent(h.unknown_ns, x.waited_ns)} unknown` +
		(h.too_short ? '; most holds are shorter than two ticks: too short to tell one from the next' : '')));
	if (h.lines.length) out.push(el('table', {class: 'holders'}, el('tbody', null, ...h.lines.map((l, i) => el('tr', null, nsCell(l.ns), el('td', null, percent(l.ns, x.waited_ns)), el('td', {class: 'name'}, `[${l.state}] `, ...placeButton(l.func, l.file, l.line, `holder${id}.${i}`)))))));
	for (const s of h.stacks.slice(0, 3)) {
		out.push(el('details', null, el('summary', null, `${ns(s.ns)} [${s.state}] stack of a holder`), el('pre', null, s.frames.map((f) => `${f.func}  ${place(f.file, f.line)}`).join('\n'))));
	}
	return out;
};

tables.requests = function (panel) {
	perSide(panel, 'requests', ({requests: r}, from) => {
		if (!r.count) return [el('p', null, `No requests were found (${r.what}).`)];
		const out = [];
		const length = (x, p) => x[p + '_ns_below'] ? '<' + ns(x[p + '_ns_below']) : ns(x[p + '_ns'] || 0);
		const known = (x) => x.count_high !== undefined && 25 * (x.count_high - x.count_low) <= x.count;
		const count = (x) => known(x) ? x.count.toLocaleString('en-US') : x.count_high ? `${x.count_low.toLocaleString('en-US')} to ${x.count_high.toLocaleString('en-US')}` : 'at least ' + x.count_low.toLocaleString('en-US');
		out.push(el('p', null, `${count(r)} ${r.count === 1 ? 'request' : 'requests'}: ${r.what}. p50 ${length(r, 'p50')}, p90 ${length(r, 'p90')}, p99 ${length(r, 'p99')}, max ${length(r, 'max')}.` +
			(r.slow_per_second ? ` ${digits(r.slow_per_second)} a second take over ${ns(r.slow_over_ns)}.` : '') +
			(r.seen < r.count ? ` ${plural(r.seen, 'request')} ${r.seen === 1 ? 'has' : 'have'} a sample.` : '') + (r.too_short ? ` ${r.too_short.toLocaleString('en-US')} too short to tell.` : '') + (r.unfinished ? ` ${r.unfinished.toLocaleString('en-US')} not finished.` : '')));
		if (r.rows.length > 2 || r.rows.some((x) => x.aside)) {
			const name = (x) => x.all ? x.kind + (x.aside ? ', not counted above' : '') : `${x.kind}: ${x.handler || 'no sample shows which'}`;
			out.push(el('table', {id: 'handlers'}, headings('Requests', 'p50', 'p90', 'p99', 'Max', 'Handler'), el('tbody', null, ...r.rows.map((x) => el('tr', null, el('td', null, count(x)),
				...['p50', 'p90', 'p99', 'max'].map((p) => el('td', null, length(x, p))), el('td', {class: 'name'}, x.all ? el('b', null, name(x)) : name(x)))))));
		}
		// If the number of all requests is not known, that of the shortest is not.
		const least = (h) => h.from_ns || known(r) ? h.count : Math.max(0, r.count_low - r.count + h.count);
		const most = (h) => h.from_ns || known(r) ? h.count : r.count_high && Math.max(0, r.count_high - r.count + h.count);
		const highest = Math.max(1, ...r.histogram.map(least));
		out.push(el('table', {id: 'histogram'}, headings('From', 'Requests', '^Bar'), el('tbody', null, ...r.histogram.map((h) => {
			const bar = el('i');
			bar.style.width = 100 * least(h) / highest + '%';
			return el('tr', null, el('td', null, h.from_ns ? ns(h.from_ns) : 'up to ' + ns(h.to_ns)), el('td', null, count({count: least(h), count_low: least(h), count_high: most(h)})), el('td', {class: 'name'}, el('span', {class: 'meter wide', 'aria-hidden': 'true'}, bar)));
		}))));
		const states = [...new Set([...Object.keys(r.median.states || {}), ...Object.keys(r.slow.states || {})])];
		const of = (g, s) => (g.states || {})[s] || 0, more = (s) => of(r.slow, s) - of(r.median, s);
		states.sort((x, y) => more(y) - more(x));
		const signed = (v) => (v > 0 ? '+' : '') + ns(v);
		out.push(el('h2', null, `What the ${r.slow.count} slowest, from ${ns(r.slow.from_ns)} on, do more than ${r.median.count} ${r.p50_ns ? 'near the median' : 'in the middle of those with a sample'}`));
		out.push(el('table', null, headings('More', 'Median', 'Slow', 'State'), el('tbody', null, ...states.map((s) => el('tr', null, el('td', null, signed(more(s))), nsCell(of(r.median, s)), nsCell(of(r.slow, s)), el('td', {class: 'name'}, s))))));
		out.push(el('table', null, headings('More', 'At'), el('tbody', null, ...r.difference.slice(0, 20).map((d, i) => el('tr', null, el('td', null, signed(d.ns)), el('td', {class: 'name'}, `[${d.state}] `, ...placeButton(d.name, d.file, d.line, 'difference' + i), d.object ? ' ' + d.object : '', d.peer ? ' on ' + d.peer.replace(/^tcp /, '') : ''))))));
		out.push(el('h2', null, 'Slowest'), el('table', {id: 'slowest'}, headings('Time', 'Start', 'Goroutine', 'Labels'), el('tbody', null, ...r.slowest.map((x, i) => el('tr', null,
			nsCell(x.ns), el('td', null, el('button', {class: 'plain', 'data-key': 'slow' + i, title: 'select its time', onclick: () => change({range: strip.atSteps(from + x.start_us, from + x.start_us + x.ns / 1000), second: null})}, seconds(from - head.sides[0].from_us + x.start_us))),
			el('td', null, String(x.goroutine)), el('td', {class: 'name'}, Object.entries(x.labels || {}).map(([k, v]) => `${k}=${v}`).join(' ')))))));
		return out;
	});
};

tables.leaks = function (panel) {
	perSide(panel, 'leaks', ({leaks}) => {
		if (!leaks.groups.length) return [el('p', null, 'No group of goroutines grows.')];
		return [el('table', {class: 'leaks'}, headings('At start', 'At end', 'Per minute', '~Oldest', '~Stuck', '~Ran again', 'Waits at; created by'), el('tbody', null, ...leaks.groups.map((g, i) => el('tr', null,
			el('td', null, g.start.toLocaleString('en-US')), el('td', null, g.end.toLocaleString('en-US')), el('td', null, (g.per_minute > 0 ? '+' : '') + digits(g.per_minute)), nsCell(g.oldest_ns, 'extra'), el('td', {class: 'extra'}, g.stuck.toLocaleString('en-US')), el('td', {class: 'extra'}, g.ran_again.toLocaleString('en-US')),
			el('td', {class: 'name'}, g.suspect ? el('b', {class: 'more'}, 'leak? ') : '', `[${g.reason}] `, ...placeButton(g.function, g.file, g.line, 'leak' + i), ' ', el('span', {class: 'at'}, `created by ${g.created_by || 'unknown'} ${baseName(g.created_at)}`))))))];
	});
};
