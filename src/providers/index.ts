import { ai360 } from './ai360.ts'
import { anthropic } from './anthropic.ts'
import { azure } from './azure.ts'
import { baiduV2 } from './baidu.ts'
import { bedrock } from './bedrock.ts'
import { cerebras } from './cerebras.ts'
import { cloudflare } from './cloudflare.ts'
import { cohere } from './cohere.ts'
import { custom } from './custom.ts'
import { dashscope } from './dashscope.ts'
import { deepgram } from './deepgram.ts'
import { deepinfra } from './deepinfra.ts'
import { deepseek } from './deepseek.ts'
import { elevenlabs } from './elevenlabs.ts'
import { fal } from './fal.ts'
import { fireworks } from './fireworks.ts'
import { gemini } from './gemini.ts'
import { groq } from './groq.ts'
import { huggingFace } from './hugging-face.ts'
import { hyperbolic } from './hyperbolic.ts'
import { jimeng } from './jimeng.ts'
import { jina } from './jina.ts'
import { kling } from './kling.ts'
import { lingyiwanwu } from './lingyiwanwu.ts'
import { llamaCpp } from './llama-cpp.ts'
import { lmStudio } from './lm-studio.ts'
import { luma } from './luma.ts'
import { minimax } from './minimax.ts'
import { mistral } from './mistral.ts'
import { moonshot } from './moonshot.ts'
import { nebius } from './nebius.ts'
import { newApi } from './new-api.ts'
import { novita } from './novita.ts'
import { nvidia } from './nvidia.ts'
import { ohmygpt } from './ohmygpt.ts'
import { ollama } from './ollama.ts'
import { openai, sora } from './openai.ts'
import { openrouter } from './openrouter.ts'
import { perplexity } from './perplexity.ts'
import type { Provider } from './provider.ts'
import { replicate } from './replicate.ts'
import { runway } from './runway.ts'
import { sambanova } from './sambanova.ts'
import { sglang } from './sglang.ts'
import { siliconflow } from './siliconflow.ts'
import { submodel } from './submodel.ts'
import { tencent } from './tencent.ts'
import { textEmbeddingsInference } from './text-embeddings-inference.ts'
import { together } from './together.ts'
import { vertex } from './vertex.ts'
import { vidu } from './vidu.ts'
import { vllm } from './vllm.ts'
import { doubaoVideo, volcengine } from './volcengine.ts'
import { voyage } from './voyage.ts'
import { xai } from './xai.ts'
import { xinference } from './xinference.ts'
import { xunfei } from './xunfei.ts'
import { zai, zhipu, zhipuV4 } from './zhipu.ts'

export { headersOf, signerOf } from './auth.ts'
export * from './endpoint.ts'
export * from './offers.ts'
export * from './provider.ts'
export * from './type-entry.ts'

/**
 * Every vendor, by number. The numbers below 1000 are those of the gateway family whose channels we take over and
 * are never given anew; ours begin at 1001. Not carried: older resellers and protocols that a newer number
 * stands for (6, 9 to 13, 15, 21, 44), proxies to other products (2, 5, 36, 57, 59), applications rather than
 * models (22, 37, 49), and the free form (58).
 */
export const providers: readonly Provider[] = [
  openai, // 1
  azure, // 3
  ollama, // 4
  ohmygpt, // 7
  custom, // 8
  anthropic, // 14
  zhipu, // 16
  dashscope, // 17
  xunfei, // 18
  ai360, // 19
  openrouter, // 20
  tencent, // 23
  gemini, // 24
  moonshot, // 25
  zhipuV4, // 26
  perplexity, // 27
  lingyiwanwu, // 31
  bedrock, // 33
  cohere, // 34
  minimax, // 35
  jina, // 38
  cloudflare, // 39
  siliconflow, // 40
  vertex, // 41
  mistral, // 42
  deepseek, // 43
  volcengine, // 45
  baiduV2, // 46
  xinference, // 47
  xai, // 48
  kling, // 50
  jimeng, // 51
  vidu, // 52
  submodel, // 53
  doubaoVideo, // 54
  sora, // 55
  replicate, // 56
  newApi, // 60
  groq, // 1001
  together, // 1002
  fireworks, // 1003
  cerebras, // 1004
  sambanova, // 1005
  deepinfra, // 1006
  novita, // 1007
  nebius, // 1008
  hyperbolic, // 1009
  nvidia, // 1010
  huggingFace, // 1011
  zai, // 1012
  elevenlabs, // 1013
  deepgram, // 1014
  voyage, // 1015
  runway, // 1016
  luma, // 1017
  fal, // 1018
  vllm, // 1019
  sglang, // 1020
  llamaCpp, // 1021
  lmStudio, // 1022
  textEmbeddingsInference, // 1023
]

const byType: ReadonlyMap<number, Provider> = new Map(providers.map(provider => [provider.type, provider]))

export function providerOf(type: number): Provider | undefined {
  return byType.get(type)
}
