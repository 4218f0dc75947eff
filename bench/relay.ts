import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

/**
 * What the gateway costs: CPU of its whole process for a small chat request, with authentication, hold and settlement
 * on, beside nginx as a plain proxy in the same run. The upstream is nginx with a fixed answer.
 */
const RUNS = 3
const REQUESTS = 6_000
const CONNECTIONS = 64
const PORTS = { upstream: 18_080, proxy: 18_081, sluice: 18_082 }
const ROOT_TOKEN = 'bench-root-access-token-01'
const QUESTION = JSON.stringify({
  model: 'gpt-4o-mini',
  messages: [{ role: 'user', content: 'Hello, how are you?' }],
})
const ANSWER = {
  id: 'chatcmpl-1',
  object: 'chat.completion',
  created: 1,
  model: 'gpt-4o-mini',
  choices: [
    { index: 0, message: { role: 'assistant', content: 'I am well, thank you.' }, finish_reason: 'stop' },
  ],
  usage: { prompt_tokens: 12, completion_tokens: 7, total_tokens: 19 },
}

/** The pid and its children's, threads included. */
function cpuMsOf(pid: number): number {
  const ticksMs = 10
  const own = (id: number) => {
    const fields = readFileSync(`/proc/${id}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
    return (Number(fields[11]) + Number(fields[12])) * ticksMs
  }
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean)
  return own(pid) + children.reduce((sum, child) => sum + cpuMsOf(Number(child)), 0)
}

const rssMbOf = (pid: number) =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024

function startNginx(dir: string): ChildProcess {
  const answer = JSON.stringify(ANSWER).replaceAll("'", '')
  writeFileSync(
    join(dir, 'nginx.conf'),
    `daemon off; worker_processes 1; pid ${dir}/nginx.pid; error_log ${dir}/error.log;
     events { worker_connections 1024; }
     http { access_log off; keepalive_requests 1000000; client_body_temp_path ${dir}/body; proxy_temp_path ${dir}/proxy;
       fastcgi_temp_path ${dir}/f; uwsgi_temp_path ${dir}/u; scgi_temp_path ${dir}/s;
       server { listen 127.0.0.1:${PORTS.upstream}; location / { default_type application/json; return 200 '${answer}'; } } }`,
  )
  return spawn('nginx', ['-c', join(dir, 'nginx.conf'), '-p', dir], { stdio: 'inherit' })
}

function startProxy(dir: string): ChildProcess {
  mkdirSync(dir, { recursive: true })
  writeFileSync(
    join(dir, 'nginx.conf'),
    `daemon off; worker_processes 1; pid ${dir}/nginx.pid; error_log ${dir}/error.log;
     events { worker_connections 1024; }
     http { access_log off; keepalive_requests 1000000; client_body_temp_path ${dir}/body; proxy_temp_path ${dir}/proxy;
       fastcgi_temp_path ${dir}/f; uwsgi_temp_path ${dir}/u; scgi_temp_path ${dir}/s;
       upstream up { server 127.0.0.1:${PORTS.upstream}; keepalive 128; keepalive_requests 1000000; }
       server { listen 127.0.0.1:${PORTS.proxy}; location / { proxy_pass http://up; proxy_http_version 1.1; proxy_set_header Connection ""; } } }`,
  )
  return spawn('nginx', ['-c', join(dir, 'nginx.conf'), '-p', dir], { stdio: 'inherit' })
}

function startSluice(dir: string): ChildProcess {
  return spawn(process.execPath, ['src/main.ts', 'start'], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: {
      ...process.env,
      PORT: String(PORTS.sluice),
      SLUICE_DATA: dir,
      SLUICE_LOG: 'warn',
      SLUICE_ROOT_ACCESS_TOKEN: ROOT_TOKEN,
    },
  })
}

async function api(path: string, body: unknown): Promise<{ data: { key: string } }> {
  const response = await fetch(`http://127.0.0.1:${PORTS.sluice}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${ROOT_TOKEN}` },
    body: JSON.stringify(body),
  })
  return (await response.json()) as { data: { key: string } }
}

async function untilReady(): Promise<void> {
  for (let i = 0; i < 100; i++) {
    const ready = await fetch(`http://127.0.0.1:${PORTS.sluice}/readyz`).catch(() => undefined)
    if (ready?.ok) return
    await sleep(100)
  }
  throw new Error('the gateway did not become ready')
}

type Figures = { perSecond: number; p50Ms: number; p99Ms: number; failed: number }

function load(port: number, key: string, connections: number, requests: number): Figures {
  const order = {
    url: `http://127.0.0.1:${port}/v1/chat/completions`,
    headers: { authorization: `Bearer ${key}` },
    body: QUESTION,
    connections,
    requests,
  }
  return JSON.parse(
    execFileSync(process.execPath, ['bench/load.ts', JSON.stringify(order)], { encoding: 'utf8' }),
  )
}

const median = (values: readonly number[]) =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0

export async function benchRelay(): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'sluice-bench-'))
  const upstream = startNginx(dir)
  const proxy = startProxy(join(dir, 'p'))
  const sluice = startSluice(join(dir, 'data'))
  try {
    await untilReady()
    const channel = {
      name: 'bench',
      type: 1,
      key: 'k',
      base_url: `http://127.0.0.1:${PORTS.upstream}`,
      models: ['gpt-4o-mini'],
    }
    await api('/api/channel/', { mode: 'single', channel })
    const { key } = (await api('/api/token/', { name: 'bench', remain_quota: 4_000_000_000 })).data

    console.log(`\nsmall chat request, ${CONNECTIONS} connections, median of ${RUNS} runs of ${REQUESTS}`)
    console.log('                 req/s   CPU µs/request   p50 ms   p99 ms   p50 alone   RSS MiB   failed')
    const cost: Record<string, number> = {}
    for (const [name, process_, port] of [
      ['nginx', proxy, PORTS.proxy],
      ['sluice', sluice, PORTS.sluice],
    ] as const) {
      const pid = process_.pid ?? 0
      load(port, key, CONNECTIONS, 1_000)
      const runs = Array.from({ length: RUNS }, () => {
        const before = cpuMsOf(pid)
        const figures = load(port, key, CONNECTIONS, REQUESTS)
        return { ...figures, cpuUs: ((cpuMsOf(pid) - before) * 1000) / REQUESTS }
      })
      const alone = load(port, key, 1, 500)
      const of = (pick: (run: (typeof runs)[number]) => number) => median(runs.map(pick))
      cost[name] = of(run => run.cpuUs)
      console.log(
        `${name.padEnd(12)} ${of(run => run.perSecond)
          .toFixed(0)
          .padStart(9)} ${of(run => run.cpuUs)
          .toFixed(1)
          .padStart(16)} ${of(run => run.p50Ms)
          .toFixed(2)
          .padStart(8)} ${of(run => run.p99Ms)
          .toFixed(2)
          .padStart(
            8,
          )} ${alone.p50Ms.toFixed(2).padStart(11)} ${rssMbOf(pid).toFixed(0).padStart(9)} ${String(runs.reduce((sum, run) => sum + run.failed, 0)).padStart(8)}`,
      )
    }
    console.log(
      `CPU of a request: ${((cost.sluice ?? 0) / (cost.nginx || 1)).toFixed(1)} × nginx's (goal at first ≤ 6)`,
    )
  } finally {
    for (const child of [sluice, proxy, upstream]) child.kill('SIGTERM')
    await sleep(1_500)
    rmSync(dir, { recursive: true, force: true })
  }
}
