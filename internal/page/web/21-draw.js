// Drawing: what changed is drawn at the next frame, what takes long in frames of its own, so that the page follows the pointer.

// panels are what the page draws: {name, needs, draw, late, slow}. A panel is drawn again if what it needs changed: the settings
// with these names, the theme, the size of the window, or that nudge named it. Late ones wait for a later frame if they take long,
// and for a pause while something moves, or if slow says so.
const panels = [];
const nudges = {};
const nudged = new Set(); // names of panels that do not wait: the user works in them

function nudge(name) {
	nudges[name] = (nudges[name] || 0) + 1;
	nudged.add(name);
	draw();
}

const frames = {
	budget: 16, moving: 8, // ms of a frame for late panels: usually, and while something moves
	pause: 120, // ms without a change, then nothing moves any more
	waiting: false, drawn: 0, last: 0,
	timer: 0, next: 0, // what draws late panels
};

// draw draws what changed at the next frame. Until all is drawn the page has the attribute data-pending.
function draw() {
	if (frames.waiting) return;
	frames.waiting = true;
	document.documentElement.setAttribute('data-pending', '');
	requestAnimationFrame(() => {
		frames.waiting = false;
		clearTimeout(frames.timer);
		cancelAnimationFrame(frames.next);
		applyTheme();
		const begin = performance.now(), moving = begin - frames.last < 250;
		frames.last = begin;
		let pause = false;
		for (const p of panels.filter(needed)) {
			const slow = p.late && !!p.slow?.(), left = (moving ? frames.moving : frames.budget) - (performance.now() - begin);
			if (nudged.has(p.name) || !p.late || !slow && (p.cost || 0) < left) drawPanel(p);
			else pause ||= slow || moving;
		}
		nudged.clear();
		document.documentElement.dataset.drawn = ++frames.drawn;
		if (!writeHash(false) || pause) frames.timer = setTimeout(drawLate, frames.pause);
		else drawLate();
	});
}

// drawLate draws what is left, in each frame as much as fits, but at least one panel.
function drawLate() {
	if (!panels.some(needed)) {
		if (!frames.waiting) writeHash(true);
		document.documentElement.dataset.hash = location.hash;
		document.documentElement.toggleAttribute('data-pending', frames.waiting);
		window.gotach.ready ||= performance.now();
		return;
	}
	frames.next = requestAnimationFrame(() => {
		if (frames.waiting) return; // the frame of draw comes now and does the rest
		const begin = performance.now();
		for (const [i, p] of panels.filter(needed).entries()) {
			if (i && performance.now() - begin + (p.cost || 0) > frames.budget) break;
			drawPanel(p);
		}
		drawLate();
	});
}

// key returns what a panel depends on, as text.
function key(p) { return JSON.stringify([p.needs.map((name) => S[name]), dark(), innerWidth, innerHeight, devicePixelRatio, nudges[p.name]]); }

// needed reports whether what a panel depends on changed since it was drawn.
function needed(p) { return key(p) !== p.key; }

function drawPanel(p) {
	const begin = performance.now();
	p.key = key(p);
	p.draw();
	p.cost = performance.now() - begin;
}
