// Loads a file with speedscope's own importer and prints what it says about functions.
//
//	node import.cjs DIR FILE...
//
// DIR is the package speedscope, whose release is one script for browsers. It is run here without one: the script's
// importer is called as its page does when it is given a file by name.
const fs = require('node:fs'), path = require('node:path'), vm = require('node:vm')

const [dir, ...files] = process.argv.slice(2)
const release = path.join(dir, 'dist', 'release')
const name = fs.readdirSync(release).find(f => /^speedscope-.*\.js$/.test(f))
let text = fs.readFileSync(path.join(release, name), 'utf8')
const importer = text.match(/async function (\w+)\(\w+,\w+\)\{return\(await \w+\)\.importProfileGroupFromBase64/)
if (!importer) throw new Error('no importer in ' + name)
text = text.replace('(()=>{', '(()=>{globalThis.importFromBase64=' + importer[1] + ';')

// Any property of nothing is nothing, and it can be called. It stands for the browser's document.
const nothing = new Proxy(function () {}, {
  get: (_, key) => (key === Symbol.toPrimitive ? () => '' : nothing),
  set: () => true, apply: () => nothing, construct: () => nothing,
})
const quiet = { log() {}, warn() {}, error: console.error, info() {}, time() {}, timeEnd() {} }
const context = vm.createContext({
  document: nothing, navigator: { userAgent: '', platform: '' }, location: { hash: '', href: 'file:///', protocol: 'file:' },
  matchMedia: () => ({ matches: false, addListener() {}, addEventListener() {} }), addEventListener() {},
  requestAnimationFrame() {}, setTimeout, clearTimeout, console: quiet, TextDecoder, TextEncoder, URL, WebAssembly, localStorage: {},
  atob, btoa, Uint8Array, ArrayBuffer, Map, Set, performance,
})
context.window = context.self = context
try {
  vm.runInContext(text, context)
} catch (e) {
  if (!context.importFromBase64) throw e // the page itself cannot be shown
}

async function main() {
  const out = []
  for (const file of files) {
    const group = await context.importFromBase64(path.basename(file), fs.readFileSync(file).toString('base64'))
    if (!group) throw new Error(file + ': not a profile')
    for (const p of group.profiles) {
      const frames = []
      p.forEachFrame(f => frames.push({ name: f.name, file: f.file, self: f.getSelfWeight(), total: f.getTotalWeight() }))
      out.push({ file, name: p.getName(), unit: p.getWeightUnit(), total: p.getTotalNonIdleWeight(), weight: p.getTotalWeight(), frames })
    }
  }
  process.stdout.write(JSON.stringify(out) + '\n')
}
main().catch(e => { console.error(e); process.exit(1) })
