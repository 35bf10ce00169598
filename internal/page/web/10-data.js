// The data of the page: pieces are unpacked into columns, and what is often asked is worked out once.

let head = JSON.parse(document.getElementById('head').textContent);

// piece returns a piece of the data: an object with the piece's JSON, and its columns as arrays of numbers.
async function piece(name, of = head, what = {}) {
	let body;
	if (of.live) {
		const answer = await fetch(live.address(name, of.generation, what), {cache: 'no-store'});
		if (!answer.ok) throw new Error(`${name}: the server says ${answer.status}`);
		body = answer.body;
	} else {
		const element = document.getElementById('piece-' + name);
		if (!element) return null;
		body = new Blob([fromBase64(element.textContent)]).stream();
		element.remove();
	}
	const all = new Uint8Array(await new Response(body.pipeThrough(new DecompressionStream('gzip'))).arrayBuffer());
	const length = new DataView(all.buffer).getUint32(0, true);
	const out = JSON.parse(new TextDecoder().decode(all.subarray(4, 4 + length)));
	let at = 4 + length;
	for (const [column, count, bytes] of out.columns) {
		out[column] = numbers(all, at, count);
		at += bytes;
	}
	return out;
}

// fromBase64 returns bytes. Older browsers do not have a function for it.
function fromBase64(base64) {
	if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
	const text = atob(base64), bytes = new Uint8Array(text.length);
	for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
	return bytes;
}

// numbers reads signed varints. Large ones are exact up to 2^53.
function numbers(bytes, at, count) {
	const out = new Float64Array(count);
	for (let i = 0; i < count; i++) {
		let b = bytes[at++];
		if (b < 0x80) {
			out[i] = b & 1 ? -(b + 1) / 2 : b / 2;
			continue;
		}
		let v = b & 0x7f, scale = 128;
		do {
			b = bytes[at++];
			v += (b & 0x7f) * scale;
			scale *= 128;
		} while (b >= 0x80);
		out[i] = v % 2 ? -(v + 1) / 2 : v / 2;
	}
	return out;
}

// runningSum turns differences into values.
function runningSum(list) {
	for (let i = 1; i < list.length; i++) list[i] += list[i - 1];
	return list;
}

const integers = (list) => Int32Array.from(list);

// D is the data. Nodes are stacks: node 0 is the empty one, the caller of a node has a smaller number.
let D = null;

// G is the goroutines that have a row of their own.
let G = null;

// loadData loads the data that belong to a head.
async function loadData(next) {
	const [core, lives, overview, tables] = await Promise.all(['core', 'goroutines', 'overview', ...(next.live ? [] : ['tables'])].map((name) => piece(name, next)));
	head = next;
	G = lives;
	if (tables) findings.whole = tables;
	D = core;
	D.overview = overview.class.length ? overview : null;
	D.width = head.width_us;
	D.steps = head.steps;
	const frames = D.nodeFrame.length + 1;
	D.caller = new Int32Array(frames);
	D.frame = new Int32Array(frames).fill(-1);
	D.fn = new Int32Array(frames).fill(-1);
	D.line = new Int32Array(frames);
	D.outermost = new Uint8Array(frames); // the function is not in the stack of the caller
	D.own = new Int32Array(frames); // the innermost frame that is the program's own code, or else the nearest to that
	const codes = new Uint8Array(frames);
	for (let i = 1; i < frames; i++) {
		D.caller[i] = i - D.nodeCaller[i - 1];
		const f = D.nodeFrame[i - 1];
		D.frame[i] = f;
		D.fn[i] = D.frameFn[f];
		D.line[i] = D.frameLine[f];
		D.outermost[i] = 1;
		const code = D.fnCode[D.fn[i]], up = D.caller[i];
		D.own[i] = up > 0 && codes[up] > code ? D.own[up] : i;
		codes[i] = Math.max(code, codes[up]);
		for (let up = D.caller[i]; up > 0; up = D.caller[up]) {
			if (D.fn[up] === D.fn[i]) {
				D.outermost[i] = 0;
				break;
			}
		}
	}
	D.children = childLists(D.caller);
	for (const name of ['fnName', 'fnFile', 'fnPackage', 'fnCode', 'recSide', 'recGroup', 'recState', 'recIdle', 'recRests', 'recApart', 'stateClass', 'stateCPU', 'frameFn', 'frameLine']) {
		D[name] = integers(D[name]);
	}
	D.recNode = integers(runningSum(D.recNode));
	D.recClass = D.recState.map((s, r) => D.recIdle[r] ? D.classes.length - 2 : D.recApart[r] ? D.classes.length - 1 : D.stateClass[s]);
	D.recCPU = D.recState.map((s) => D.stateCPU[s]);
	D.rest = D.recRest.map((v, r) => v + D.recRestNano[r] / 1000);
	D.first = new Int32Array(D.recEvents.length + 1); // of a record's events
	D.evBefore = new Float64Array(D.evStep.length); // the record's time before the step of the event
	D.evCount = new Int32Array(D.evStep.length); // how many times the whole step the record has from there on
	for (let r = 0; r < D.recEvents.length; r++) {
		D.first[r + 1] = D.first[r] + D.recEvents[r];
		let step = 0, sum = 0, count = 0;
		for (let e = D.first[r]; e < D.first[r + 1]; e++) {
			sum += count * D.width * D.evStep[e];
			D.evStep[e] = step += D.evStep[e];
			D.evBefore[e] = sum;
			D.evCount[e] = count += D.evDiff[e];
			sum += D.evPart[e];
		}
	}
	for (const name of ['gRuns', 'gGroup', 'gLabels', 'gSide', 'runRecord']) G[name] = integers(G[name]);
	D.end = head.sides[head.sides.length - 1].to_us;
}

// childLists returns the children of each node in one list; those of n are in list from start[n] to start[n + 1].
function childLists(caller) {
	const n = caller.length, start = new Int32Array(n + 1), list = new Int32Array(Math.max(0, n - 1));
	for (let i = 1; i < n; i++) start[caller[i] + 1]++;
	for (let i = 0; i < n; i++) start[i + 1] += start[i];
	const next = start.slice(0, n);
	for (let i = 1; i < n; i++) list[next[caller[i]]++] = i;
	return {start, list};
}

const fnName = (fn) => D.strings[D.fnName[fn]];
const fnFile = (fn) => D.strings[D.fnFile[fn]];
const fnPackage = (fn) => D.strings[D.fnPackage[fn]];

// switchOf returns the setting that shows a class; most have none.
const switchOf = (c) => ['idle', 'apart'][c - D.classes.length + 2];
const leftOut = (c) => switchOf(c) !== undefined && !S[switchOf(c)];
