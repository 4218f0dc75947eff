import { alibaba } from './alibaba.ts'
import { baai } from './baai.ts'
import { blackForestLabs } from './black-forest-labs.ts'
import { cohere } from './cohere.ts'
import { deepgram } from './deepgram.ts'
import { elevenlabs } from './elevenlabs.ts'
import { google } from './google.ts'
import { groq } from './groq.ts'
import { jina } from './jina.ts'
import { minimax } from './minimax.ts'
import { mistral } from './mistral.ts'
import { openai } from './openai.ts'
import { recraft } from './recraft.ts'
import { runway } from './runway.ts'
import { stability } from './stability.ts'
import type { VendorPrices } from './vendor-prices.ts'
import { volcengine } from './volcengine.ts'
import { voyage } from './voyage.ts'
import { xai } from './xai.ts'

/** Every vendor with a price file; a new file is one line here. */
export const vendors: readonly VendorPrices[] = [
  alibaba,
  baai,
  blackForestLabs,
  cohere,
  deepgram,
  elevenlabs,
  google,
  groq,
  jina,
  minimax,
  mistral,
  openai,
  recraft,
  runway,
  stability,
  volcengine,
  voyage,
  xai,
]
