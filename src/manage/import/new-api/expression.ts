import type { PriceInput, RateInput } from '../../../domain/price.ts'
import { rateOf } from '../values.ts'

/**
 * Reads the price expressions of new-api (`len <= 200000 ? tier("a", p * 3 + c * 15) : tier("b", p * 6 + c * 22.5)`), which
 * count USD per million tokens. Sums of rates and conditions about the length of the input can be carried over; all other
 * expressions (calls of `param` and `header`, other conditions) cannot.
 */

const RATES = {
  p: 'input',
  c: 'output',
  cr: 'cached_input',
  cc: 'cache_write',
  cc1h: 'cache_write_1h',
  img: 'image_input',
  ai: 'audio_input',
  ao: 'audio_output',
} as const satisfies Record<string, keyof RateInput>

type Rates = { [name in (typeof RATES)[keyof typeof RATES]]?: number }
/** Rates for inputs of more than `over` tokens, up to the next tier. */
type Tier = { readonly over: number; readonly rates: Rates }

const MAX_LENGTH = 4_000
const MAX_TIERS = 20
const TOKEN = /\s*(?:(\d+(?:\.\d+)?)|([a-z_]\w*)|"([^"\\]*)"|(<=|>=|[<>?:()+*,]))/giy

class Unsupported extends Error {}

function tokensOf(text: string): string[] {
  if (text.length > MAX_LENGTH) throw new Unsupported()
  const tokens: string[] = []
  const pattern = new RegExp(TOKEN)
  const source = text.trim()
  while (pattern.lastIndex < source.length) {
    const match = pattern.exec(source)
    if (!match) throw new Unsupported()
    const [, number, word, string, sign] = match
    tokens.push(number ?? word ?? (string === undefined ? (sign ?? '') : `"${string}`))
  }
  return tokens
}

function createReader(tokens: readonly string[]) {
  let at = 0
  const peek = () => tokens[at]
  const next = () => tokens[at++] ?? ''
  const expect = (token: string) => {
    if (next() !== token) throw new Unsupported()
  }
  const number = (): number => {
    const value = next()
    if (!/^\d/.test(value)) throw new Unsupported()
    return Number(value)
  }

  /** `p * 3 + c * 15`. */
  function sum(): Rates {
    const rates: Rates = {}
    do {
      const first = next()
      const isNumber = /^\d/.test(first)
      let factor = isNumber ? Number(first) : 1
      let name = isNumber ? '' : first
      while (peek() === '*') {
        next()
        const other = next()
        if (/^\d/.test(other)) factor *= Number(other)
        else if (name === '') name = other
        else throw new Unsupported()
      }
      if (!Object.hasOwn(RATES, name)) throw new Unsupported()
      const rate = RATES[name as keyof typeof RATES]
      rates[rate] = (rates[rate] ?? 0) + factor
    } while (peek() === '+' && next())
    return rates
  }

  function leaf(): Rates {
    if (peek() !== 'tier') return sum()
    next()
    expect('(')
    if (!next().startsWith('"')) throw new Unsupported()
    expect(',')
    const rates = sum()
    expect(')')
    return rates
  }

  /** Tiers within a span of lengths; a condition divides it. */
  function tiers(over: number, upTo: number, depth = 0): Tier[] {
    if (depth > MAX_TIERS) throw new Unsupported()
    if (peek() === '(') {
      next()
      const inner = tiers(over, upTo, depth + 1)
      expect(')')
      return inner
    }
    if (peek() !== 'len') return [{ over, rates: leaf() }]
    next()
    const operator = next()
    const bound = number()
    // `len < 10` and `len >= 10` divide after 9.
    const split = operator === '<' || operator === '>=' ? bound - 1 : bound
    const isBelowFirst = operator === '<' || operator === '<='
    if (!isBelowFirst && operator !== '>' && operator !== '>=') throw new Unsupported()
    if (split <= over || split >= upTo) throw new Unsupported()
    expect('?')
    const [first, second] = isBelowFirst
      ? [
          { over, upTo: split },
          { over: split, upTo },
        ]
      : [
          { over: split, upTo },
          { over, upTo: split },
        ]
    const one = tiers(first.over, first.upTo, depth + 1)
    expect(':')
    const two = tiers(second.over, second.upTo, depth + 1)
    return [...one, ...two].sort((a, b) => a.over - b.over)
  }

  const whole = tiers(-1, Number.MAX_SAFE_INTEGER)
  if (at !== tokens.length) throw new Unsupported()
  return whole
}

/** Products of factors have more decimals than a price takes. */
const rounded = (rates: Rates): Rates =>
  Object.fromEntries(Object.entries(rates).map(([name, usd]) => [name, rateOf(usd)]))

/** The price of an expression; undefined if it cannot be carried over. */
export function readExpression(text: string): PriceInput | undefined {
  try {
    const [base, ...others] = createReader(tokensOf(text))
    if (!base) return undefined
    // A kind of token that the expression does not count is free.
    const complete = (rates: Rates) => ({ input: 0, output: 0, ...rounded(rates) })
    return {
      ...complete(base.rates),
      ...(others.length > 0 && {
        tiers: others.map(({ over, rates }) => ({ input_over: over, ...complete(rates) })),
      }),
    }
  } catch (error) {
    if (error instanceof Unsupported) return undefined
    throw error
  }
}
