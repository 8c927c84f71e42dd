// What a Node program pays for rate-limiter-flexible's RateLimiterMemory, with one line of
// figures per case.
//
// The keys are ready-made and visited in an order that was shuffled before any clock ran. Each
// key has a timer that forgets it a second after its first call, so keys come and go during the
// visits: that is how it works, and is part of what it costs. One thread: Node has no other way.
'use strict';

const { RateLimiterMemory } = require('rate-limiter-flexible');

const NAME = 'node-flexible';
const LIMIT = { points: 10, duration: 1 }; // the limit of every peer: 10 per second

// A tenth of the other peers' keys: with a million each lap takes 5 s or more.
const KEY_COUNT = 100000;
const SLICE_COUNT = 10000; // calls in a slice
const CASE_NS = 1e9; // as many slices as fit, after the warm-up
const WARM_UP_LAPS = 2;

const nowNs = () => Number(process.hrtime.bigint());

// Keys, the same in every peer.

const STEP = 0x9e3779b97f4a7c15n;
const word = (value) => BigInt.asUintN(64, value);

function mix(state) {
  let mixed = word(state);
  mixed = word((mixed ^ (mixed >> 30n)) * 0xbf58476d1ce4e5b9n);
  mixed = word((mixed ^ (mixed >> 27n)) * 0x94d049bb133111ebn);
  return mixed ^ (mixed >> 31n);
}

const newKey = (index) => mix(BigInt(index) + STEP).toString(16).padStart(16, '0');

function shuffledKeys(count) {
  const order = Uint32Array.from({ length: count }, (_, i) => i);
  let random = 1n;
  for (let i = count - 1; i > 0; i--) {
    random += STEP;
    const other = Number(mix(random) % BigInt(i + 1));
    [order[i], order[other]] = [order[other], order[i]];
  }
  return Array.from(order, newKey);
}

// Measuring.

async function visit(limiter, keys, from) {
  let admitted = 0;
  for (let i = from; i < from + SLICE_COUNT; i++) {
    try {
      await limiter.consume(keys[i]);
      admitted++;
    } catch (refused) {
      if (refused instanceof Error) throw refused;
    }
  }
  return admitted;
}

// A turn of the event loop, in which timers run.
const turn = () => new Promise((resolve) => setImmediate(resolve));

// The median of slices, each of which continues where the last one stopped.
async function measure(name, keyCount, keys, more) {
  const limiter = new RateLimiterMemory(LIMIT);
  const lap = KEY_COUNT / SLICE_COUNT;
  const times = [];
  let admitted = 0;
  for (let i = 0; i < WARM_UP_LAPS * lap; i++) {
    await visit(limiter, keys, (i % lap) * SLICE_COUNT);
    await turn();
  }
  for (const end = nowNs() + CASE_NS; times.length === 0 || nowNs() < end; ) {
    const from = (times.length % lap) * SLICE_COUNT;
    const start = nowNs();
    admitted += await visit(limiter, keys, from);
    await turn();
    times.push((nowNs() - start) / SLICE_COUNT);
  }
  times.sort((a, b) => a - b);
  const ops = times.length * SLICE_COUNT;
  console.log(
    `peer=${NAME} case=${name} ns_per_op=${times[times.length >> 1].toFixed(1)} ops=${ops}` +
      ` admitted=${(admitted / ops).toFixed(6)} keys=${keyCount}${more}` +
      ` runtime=node${process.versions.node}`
  );
}

function heapBytes() {
  global.gc();
  return process.memoryUsage().heapUsed;
}

// The bytes that a key takes, its own included.
async function memoryPerKey() {
  const limiter = new RateLimiterMemory(LIMIT);
  const before = heapBytes();
  for (let i = 0; i < KEY_COUNT; i++) await limiter.consume(newKey(i));
  return (heapBytes() - before) / KEY_COUNT;
}

async function main() {
  const memory = global.gc ? ` mem_bytes_per_key=${(await memoryPerKey()).toFixed(0)}` : '';
  await measure('hot', 1, new Array(KEY_COUNT).fill(newKey(0)), '');
  await measure('million', KEY_COUNT, shuffledKeys(KEY_COUNT), memory);
  process.exit(0); // without waiting for a timer per key
}

main();
