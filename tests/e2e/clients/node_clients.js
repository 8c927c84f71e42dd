// ioredis and node-redis, unmodified: the current major versions, which use RESP3 by default, and the previous ones.
//
//     node node_clients.js PACKAGES PORT PASSWORD      PASSWORD may be empty
//
// Prints a line for each client that passed; prints the error and exits with status 1 if one failed.
'use strict'

const assert = require('node:assert/strict')
const path = require('node:path')
const { createRequire } = require('node:module')

const [packages, port, password] = process.argv.slice(2)
const load = createRequire(path.join(packages, 'x.js'))
const check = ['RATION.CHECK', 'path', '/login', 'ip', '192.0.2.1']
const fields = ['verdict', 'limit', 'burst', 'remaining', 'retry_after_ns', 'reset_after_ns', 'delay_ns', 'banned', 'degraded']
const usage = 'Cell error: Store error: Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]'

// A map in either version of the protocol, in whatever form the client returns it.
function named (answer) {
  if (answer instanceof Map) return Object.fromEntries(answer)
  if (!Array.isArray(answer)) return { ...answer }
  return Object.fromEntries(answer.flatMap((name, at) => at % 2 === 0 ? [[name, answer[at + 1]]] : []))
}

// What every client must be able to do. ask() sends one command, pipeline() many at once.
async function use (name, ask, pipeline) {
  const key = `node:${name}`
  assert.equal(await ask('PING'), 'PONG')
  assert.deepEqual(await ask('CL.THROTTLE', key, '4', '1', '60'), [0, 5, 4, -1, 60])
  const decision = named(await ask(...check))
  assert.deepEqual(Object.keys(decision), fields)
  assert.equal(decision.limit, 'login')
  const limits = (await ask('RATION.LIMITS')).map(named)
  assert.deepEqual(limits.map(limit => limit.name), ['login'])

  const many = await pipeline(Array.from({ length: 200 }, () => ['CL.THROTTLE', key, '4', '1', '60']))
  assert.deepEqual(many.map(answer => answer[0]), Array.from({ length: 200 }, (_, at) => at < 4 ? 0 : 1))
  const top = (await ask('RATION.TOP', 'BY', 'DENIED', 'COUNT', '100')).map(named)
  assert.deepEqual(top.filter(entry => entry.key === key), [{ limit: 'inline', key, count: 196, error: 0 }])

  await assert.rejects(ask('CL.THROTTLE', key), error => error.message === usage)
  await assert.rejects(ask('GET', 'x'), error => error.message === "ERR unknown command 'GET', with args beginning with: 'x' ")
  await assert.rejects(ask('RATION.CHECK', 'path'), error => error.message === "ERR attributes come in pairs: name value [name value ...]")
  assert.equal(await ask('DEL', key), 1)
  assert.deepEqual(await ask('CL.THROTTLE', key, '4', '1', '60'), [0, 5, 4, -1, 60])
}

async function useIoredis (name, Redis, options) {
  const client = new Redis({
    port: Number(port),
    host: '127.0.0.1',
    connectionName: 'of-node',
    db: 0,
    lazyConnect: true,
    maxRetriesPerRequest: 0,
    retryStrategy: null,
    ...(password ? { password } : {}),
    ...options
  })
  const errors = []
  client.on('error', error => errors.push(error))
  await client.connect()
  await use(name, (...words) => client.call(...words), async commands => {
    const pipeline = client.pipeline()
    for (const [first, ...rest] of commands) pipeline.call(first, ...rest)
    return (await pipeline.exec()).map(([error, answer]) => { assert.equal(error, null); return answer })
  })
  assert.equal(await client.client('GETNAME'), 'of-node')
  const info = String(await client.call('CLIENT', 'INFO'))
  assert.equal(await client.quit(), 'OK')
  assert.deepEqual(errors, [])
  return info
}

async function useNodeRedis (name, redis, options) {
  const client = redis.createClient({
    socket: { host: '127.0.0.1', port: Number(port), reconnectStrategy: false },
    name: 'of-node',
    database: 0,
    ...(password ? { password } : {}),
    ...options
  })
  const errors = []
  client.on('error', error => errors.push(error))
  await client.connect()
  await use(name, (...words) => client.sendCommand(words),
    commands => Promise.all(commands.map(words => client.sendCommand(words)))) // one write for all
  assert.equal(await client.clientGetName(), 'of-node')
  const info = String(await client.sendCommand(['CLIENT', 'INFO']))
  await client.close()
  assert.deepEqual(errors, [])
  return info
}

// With a wrong or missing password the client reports an error and does not hang.
async function refuse (name, connect) {
  await assert.rejects(connect, error => /WRONGPASS|NOAUTH/.test(error.message + error.cause?.message + error.previousErrors))
  console.log(`${name}: refused`)
}

async function main () {
  const ioredis = load('ioredis').Redis
  const ioredis5 = load('ioredis5').Redis
  const redis = load('redis')
  const redis5 = load('redis5')
  const runs = [
    ['ioredis 6', 3, name => useIoredis(name, ioredis, {})],
    ['ioredis 6 in RESP2', 2, name => useIoredis(name, ioredis, { protocol: 2 })],
    ['ioredis 5', 2, name => useIoredis(name, ioredis5, {})],
    ['node-redis 6', 3, name => useNodeRedis(name, redis, {})],
    ['node-redis 6 in RESP2', 2, name => useNodeRedis(name, redis, { RESP: 2 })],
    ['node-redis 5', 2, name => useNodeRedis(name, redis5, {})],
    ['node-redis 5 in RESP3', 3, name => useNodeRedis(name, redis5, { RESP: 3 })]
  ]
  for (const [name, version, run] of runs) {
    const info = await run(name)
    assert.match(info, new RegExp(`\\bresp=${version}\\b`), `${name}: ${info}`)
    assert.match(info, /\bname=of-node\b/)
    console.log(`${name}: ${info.trim()}`)
  }
  if (!password) return
  await refuse('node-redis 6', () => useNodeRedis('refused', redis, { password: 'wrong' }))
  await refuse('node-redis 5', () => useNodeRedis('refused', redis5, { password: 'wrong' }))
}

main().then(() => process.exit(0), error => {
  console.error(error)
  process.exit(1)
})
