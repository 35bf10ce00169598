// The page begins here.

async function main() {
	try {
		await live.load();
	} catch (error) {
		byId('loading').textContent = 'The data of the page cannot be read: ' + error.message;
		return;
	}
	byId('loading').hidden = true;
	readHash();
	showData();
	const sum = ['range', 'second', 'idle', 'apart', 'weight', 'group', 'goroutine', 'removed', 'keep'];
	panels.push(
		{name: 'controls', needs: Object.keys(short), draw: () => controls.draw()},
		{name: 'why', needs: ['finding', 'range', 'second', 'weight', 'idle', 'apart', 'selected', 'group', 'tab'], draw: () => why.draw()},
		{name: 'legend', needs: ['idle', 'apart', 'hidden'], draw: () => strip.legend()},
		{name: 'strip', needs: ['view', 'range', 'second', 'at', 'idle', 'apart', 'hidden', 'query'], draw: () => { strip.draw(); strip.twin(); }},
		{name: 'heat', needs: ['view', 'range', 'second', 'idle', 'apart', 'query', 'heat', 'heatKind'], draw: () => heat.draw(), late: true, slow: () => S.heat && String(heat.view) !== String(S.view)},
		{name: 'flame', needs: [...sum, 'query', 'view', 'graph', 'zoom', 'selected', 'invert', 'colour'], draw: () => flame.draw(), late: true},
		{name: 'matched', needs: [...sum, 'query'], draw: () => controls.matched(), late: true},
		{name: 'lives', needs: [...sum, 'view', 'query', 'folded'], draw: () => goroutines.draw(), late: true},
		{name: 'tables', needs: [...sum, 'query', 'selected', 'tab', 'sort', 'lock', 'at'], draw: () => tables.draw(), late: true},
	);
	controls.start();
	strip.start();
	heat.start();
	flame.start();
	goroutines.begin();
	addEventListener('hashchange', () => {
		readHash();
		draw();
	});
	addEventListener('resize', draw);
	matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
	// What the page shows, for tests and for the console.
	window.gotach = {duration, generations: () => ({growing: !live.status || live.status.growing || live.status.generation !== head.generation, duration: head.sides[0].duration_ns}), times: () => panels.map((p) => { const begin = performance.now(); sumsKey = flame.key = ''; p.draw(); return `${p.name} ${Math.round(performance.now() - begin)}`; }).join(', '), end: D.end, width: D.width, fine: strip.width, settings: () => S, boxes: () => flame.boxes.map((b) => ({name: flame.name(b.box), x: b.x, y: b.y * flame.row, w: b.w, us: b.box.value})),
		classes: (from, to) => Object.fromEntries(D.classes.map((name, c) => [name, strip.until(c, to) - strip.until(c, from)])), squares: () => heat.squares(),
		stacks: () => instant.find(S.at).rows.flatMap((x) => x.list.map(([i]) => ({id: G.gId[i], state: D.states[D.recState[x.record]], frames: instant.names(D.recNode[x.record])}))),
		rows: () => goroutines.rows.map((r, i) => ({name: r.goroutine < 0 ? groupName(r.group) : String(G.gId[r.goroutine]), y: i * goroutines.row, goroutine: r.goroutine}))};
	draw();
	piece('source').then((p) => { source = p; }, () => {});
	live.watch();
}

main();
