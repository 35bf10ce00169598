// Sums over a range of time: the time of records, of stacks, of functions. They are whole µs and so exact.

// wanted reports whether a record is shown at all.
function wanted(r) {
	return (!leftOut(D.recClass[r]) || S.weight === 'latency') && (S.weight !== 'cpu' || D.recCPU[r]) && (S.group < 0 || D.recGroup[r] === S.group);
}

// recordTime returns a record's time between two steps.
function recordTime(r, from, to) { return timeUntil(r, to) - timeUntil(r, from); }

// timeUntil returns a record's time before a step.
function timeUntil(r, step) {
	let low = D.first[r] - 1, high = D.first[r + 1]; // the event that is sought is the last one before the step
	while (high - low > 1) {
		const middle = (low + high) >> 1;
		if (D.evStep[middle] < step) low = middle;
		else high = middle;
	}
	return low < D.first[r] ? 0 : D.evBefore[low] + D.evPart[low] + D.evCount[low] * D.width * (step - D.evStep[low]);
}

// sideOverlaps reports whether a range has time of a side. Latency is known only of whole profiles.
function sideOverlaps(side, range) {
	const s = head.sides[side];
	return !range || range[0] < s.to_us && range[1] > s.from_us;
}

// nothing says why there is nothing to draw. It is empty if there is something.
function nothing() {
	if (sums().some((s) => s && s.all > 0)) return '';
	if (!head.sides.some((s) => s.samples)) return head.live ? 'There are no samples yet.' : 'There are no samples.';
	const what = S.weight === 'cpu' ? 'No goroutine used CPU time' : 'No goroutine has time';
	return `${what} in what is selected.` + (S.idle || S.weight !== 'wall' ? '' : ' Idle time is left out; the box “idle” shows it.') + (S.apart || !anyApart() ? '' : ' Some time is set apart.');
}

// Sums of a range: of each node the time of stacks that end there and of all stacks through it, of each function the same.
class Sums {
	constructor(range) {
		const nodes = D.caller.length, from = range ? range[0] / D.width : 0, to = range ? range[1] / D.width : D.steps;
		const whole = head.sides.map((s) => !range || range[0] <= s.from_us && range[1] >= s.to_us);
		this.range = range;
		this.length = 0; // µs on the clock
		for (const s of head.sides) this.length += Math.max(0, Math.min(s.to_us, range ? range[1] : Infinity) - Math.max(s.from_us, range ? range[0] : 0));
		this.record = new Float64Array(D.recNode.length);
		this.self = new Float64Array(nodes);
		this.cpu = new Float64Array(nodes); // self time on a CPU
		this.total = new Float64Array(nodes);
		this.totalCPU = new Float64Array(nodes);
		this.classes = D.classes.map(() => 0);
		const k = D.classes.length;
		this.byClass = new Float32Array(nodes * k); // total, for colours
		const gone = removedNodes(), kept = nodesFor(S.keep), one = S.goroutine >= 0 ? goroutines.time(S.goroutine, from * D.width, to * D.width) : null;
		for (let r = 0; r < this.record.length; r++) {
			const n = D.recNode[r];
			if (!wanted(r) || gone && gone[n] || kept && !kept[n]) continue;
			const v = S.weight === 'latency' ? (sideOverlaps(D.recSide[r], range) ? D.recLatency[r] / 1000 : 0) : one ? one[r] : recordTime(r, from, to) + (whole[D.recSide[r]] ? D.rest[r] : 0);
			if (v === 0) continue;
			this.record[r] = v;
			this.self[n] += v;
			if (D.recCPU[r]) this.cpu[n] += v;
			this.classes[D.recClass[r]] += v;
			this.byClass[n * k + D.recClass[r]] += v;
		}
		this.total.set(this.self);
		this.totalCPU.set(this.cpu);
		for (let n = nodes - 1; n > 0; n--) {
			if (!this.total[n]) continue;
			const up = D.caller[n];
			this.total[up] += this.total[n];
			this.totalCPU[up] += this.totalCPU[n];
			for (let c = 0; c < k; c++) this.byClass[up * k + c] += this.byClass[n * k + c];
		}
		this.all = this.total[0];
		if (S.weight === 'latency') this.length = head.sides.filter((_, i) => sideOverlaps(i, range)).reduce((sum, x) => sum + x.to_us - x.from_us, 0);
	}

	// functions returns the rows of the table: self and total time of each function.
	functions() {
		if (this.rows) return this.rows;
		const f = D.fnName.length, self = new Float64Array(f), total = new Float64Array(f), selfCPU = new Float64Array(f), totalCPU = new Float64Array(f);
		for (let n = 1; n < D.caller.length; n++) {
			if (!this.total[n]) continue;
			const fn = D.fn[n];
			self[fn] += this.self[n];
			selfCPU[fn] += this.cpu[n];
			if (D.outermost[n]) {
				total[fn] += this.total[n];
				totalCPU[fn] += this.totalCPU[n];
			}
		}
		return this.rows = {self, total, selfCPU, totalCPU};
	}
}

// removedNodes returns the nodes of stacks with a function that was removed, null if there are none.
function removedNodes() {
	if (!S.removed.length) return null;
	const gone = new Uint8Array(D.caller.length), bad = new Set(S.removed);
	for (let n = 1; n < gone.length; n++) gone[n] = gone[D.caller[n]] || bad.has(D.fn[n]) ? 1 : 0;
	return gone;
}

let sumsKey = '', first = null, second = null;

// sums returns those of the range, and of the second range if there is one.
function sums() {
	const key = JSON.stringify([S.range, S.second, S.idle, S.apart, S.weight, S.group, S.goroutine, S.removed, S.keep]);
	if (key !== sumsKey) {
		sumsKey = key;
		first = new Sums(S.range);
		second = S.second ? new Sums(S.second) : null;
	}
	return [first, second];
}

const matches = () => nodesFor(S.query);
const searched = new Map(); // by query, the latest two

// nodesFor returns the nodes whose stacks have a function or line that fits a search, as 1, and whose own frame does, as 2. It returns
// null if the search is empty.
function nodesFor(query) {
	if (searched.has(query)) return searched.get(query);
	for (const old of searched.keys()) if (old !== S.query && old !== S.keep) searched.delete(old);
	let list = null;
	const test = matcher(query);
	if (test) {
		const frame = D.frameFn.map((fn, f) => test(fnName(fn), fnFile(fn), D.frameLine[f]) ? 1 : 0);
		list = new Uint8Array(D.caller.length);
		for (let n = 1; n < list.length; n++) list[n] = frame[D.frame[n]] ? 2 : list[D.caller[n]] ? 1 : 0;
	}
	searched.set(query, list);
	return list;
}

// matcher returns a test for a search: a part of a name, /a regular expression/, or file:line.
function matcher(query) {
	query = query.trim();
	if (!query) return null;
	const pattern = /^\/(.+)\/$/.exec(query);
	if (pattern) {
		try {
			const re = new RegExp(pattern[1], 'i');
			return (name, file) => re.test(name) || re.test(file);
		} catch {
			return () => false;
		}
	}
	const text = query.toLowerCase(), at = /^(.+):(\d+)$/.exec(text);
	return (name, file, line) => name.toLowerCase().includes(text) || file.toLowerCase().includes(text) ||
		at !== null && line === Number(at[2]) && file.toLowerCase().endsWith(at[1]);
}

// matchedShare returns which part of the time is in stacks that fit the search.
function matchedShare(s) {
	const m = matches();
	if (!m || !s.all) return null;
	let sum = 0;
	for (let n = 1; n < m.length; n++) if (m[n] && s.self[n]) sum += s.self[n];
	return sum / s.all;
}
