import { same, type VendorPrices } from './vendor-prices.ts'

// Speech and transcription models charge tokens, but not every response reports them: an audio file does not.
// The price by the second is the vendor's own estimate, for those answers only.
const transcribe = { input: 2.5, audio_input: 6, output: 10, per_second: 0.0001 }

// The price package lists the text tokens of these models only.
const audio = { input: 2.5, audio_input: 40, output: 10, audio_output: 80 }

// The output of these models is images only, so the output rate is the rate of image tokens.
const image = { input: 5, cached_input: 1.25, image_input: 8, output: 30 }

export const openai = {
  owner: 'openai',
  models: {
    ...same({ per_character: 0.000015 }, 'tts-1', 'tts-1-1106'),
    ...same({ per_character: 0.00003 }, 'tts-1-hd', 'tts-1-hd-1106'),
    'gpt-4o-mini-tts': { input: 0.6, output: 12, per_second: 0.00025 },

    'gpt-4o-audio-preview': audio,
    'gpt-4o-audio-preview-2024-10-01': { ...audio, audio_input: 100, audio_output: 200 },
    'gpt-4o-mini-audio-preview': { input: 0.15, audio_input: 10, output: 0.6, audio_output: 20 },
    'gpt-5-image': { input: 10, cached_input: 1.25, output: 10, image_output: 40 },

    'whisper-1': { per_second: 0.0001 },
    ...same(transcribe, 'gpt-4o-transcribe', 'gpt-4o-transcribe-diarize'),
    'gpt-4o-mini-transcribe': { input: 1.25, audio_input: 3, output: 5, per_second: 0.00005 },
    'gpt-transcribe': { per_second: 0.000075 },
    ...same({ per_minute: 0.017 }, 'gpt-live-transcribe', 'gpt-realtime-whisper'),

    // Priced per token, as the vendor bills them. Its prices per image are rounded and omit the prompt.
    'chatgpt-image-latest': { input: 5, cached_input: 1.25, image_input: 8, output: 10, image_output: 32 },
    ...same(image, 'gpt-image-2.5-flare', 'gpt-image-2.5-sunburst'),

    'sora-2': { per_second: 0.1 },
    'sora-2-pro': {
      per_second: 0.3,
      variants: [
        { when: { size: '1024x1792' }, per_second: 0.5 },
        { when: { size: '1792x1024' }, per_second: 0.5 },
      ],
    },

    ...same({ input: 0 }, 'omni-moderation-latest', 'omni-moderation-2024-09-26'),
    ...same({ input: 0 }, 'text-moderation-latest', 'text-moderation-stable', 'text-moderation-007'),
  },
} satisfies VendorPrices
