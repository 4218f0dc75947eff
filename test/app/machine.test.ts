import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Machine, mismatches, processLimits } from '../../src/host/machine.ts'

const MB = 1_048_576

describe('the limits of a process', () => {
  const machine: Machine = { memoryBytes: 8_192 * MB, freeDiskBytes: 100_000 * MB, maxDescriptors: 1_024 }
  const config = {
    maxMemoryMb: undefined,
    maxTmpMb: undefined,
    maxConnections: 10_000,
    workers: 4,
    maxBodyMb: 64,
  }

  it('follow from the machine, and are divided among the workers', () => {
    const { memoryBytes, tmpBytes, connections } = processLimits(config, machine)
    assert.equal(memoryBytes, 512 * MB)
    assert.equal(tmpBytes, 2_500 * MB)
    assert.ok(connections < 500 && connections > 300, String(connections))
  })

  it('are as configured, and a setting that exceeds the machine’s limit is reported with both figures', () => {
    const set = { ...config, maxMemoryMb: 10_000, maxTmpMb: 200_000, workers: 1 }
    assert.equal(processLimits(set, machine).memoryBytes, 10_000 * MB)
    const messages = mismatches(set, machine)
    assert.equal(messages.length, 3)
    assert.match(messages[0] ?? '', /SLUICE_MAX_CONNECTIONS is 10000.*may open 1024/)
    assert.match(messages[1] ?? '', /SLUICE_MAX_MEMORY_MB is 10000.*8,192 MiB/)
    assert.match(messages[2] ?? '', /SLUICE_MAX_TMP_MB is 200000.*100,000 MiB/)
    const small = { ...config, maxMemoryMb: 100, maxConnections: 100 }
    assert.match(mismatches(small, machine).join(), /25 MiB a worker.*SLUICE_MAX_BODY_MB.*64 MiB/)
    const fitting = { ...config, maxConnections: 100, workers: 1 }
    assert.deepEqual(mismatches(fitting, machine), [])
  })
})
