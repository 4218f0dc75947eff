import { useRef } from 'react'
import { useTranslation } from 'react-i18next'
import { Button, IconButton } from '../../look/button.tsx'
import { TextArea } from '../../look/field.tsx'
import { ImagePlus, Send, Square, X } from '../../look/icons.ts'
import type { Prompt } from './conversations.ts'

const MAX_PICTURES = 4

const dataAddress = (file: File) =>
  new Promise<string>((resolve, reject) => {
    const reader = new FileReader()
    reader.onload = () => resolve(String(reader.result))
    reader.onerror = () => reject(reader.error)
    reader.readAsDataURL(file)
  })

type ComposerProps = {
  readonly prompt: Prompt
  readonly onChange: (prompt: Prompt) => void
  readonly onRun: (prompt: Prompt) => void
  readonly onStop: () => void
  readonly isBusy: boolean
  /** False until the models are loaded, or while a setting is invalid. */
  readonly canAsk: boolean
}

/** The message box: Enter sends, Shift Enter adds a line, Escape stops. */
export function Composer({ prompt, onChange, onRun, onStop, isBusy, canAsk }: ComposerProps) {
  const { t } = useTranslation()
  const picker = useRef<HTMLInputElement>(null)
  const { text, pictures } = prompt
  const isReady = canAsk && !isBusy && text.trim() !== ''
  const run = () => isReady && onRun(prompt)
  const add = async (files: FileList | null) => {
    const read = await Promise.all([...(files ?? [])].map(dataAddress))
    onChange({ ...prompt, pictures: [...pictures, ...read].slice(0, MAX_PICTURES) })
  }
  return (
    <form
      className="flex flex-col gap-2 border-t border-line p-3"
      onSubmit={event => {
        event.preventDefault()
        run()
      }}
    >
      {pictures.length > 0 ? (
        <ul className="flex flex-wrap gap-2" aria-label={t('playground.images')}>
          {pictures.map((picture, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the same picture may be there twice
            <li key={index} className="relative">
              <img src={picture} alt="" className="size-16 rounded-control object-cover" />
              <IconButton
                icon={X}
                label={t('playground.remove_image', { number: index + 1 })}
                className="absolute -top-2 -right-2 size-6 rounded-full border border-line bg-sheet"
                onClick={() => onChange({ ...prompt, pictures: pictures.filter((_, at) => at !== index) })}
              />
            </li>
          ))}
        </ul>
      ) : null}
      <div className="flex items-end gap-2">
        <TextArea
          rows={2}
          aria-label={t('playground.message')}
          placeholder={t('playground.message')}
          value={text}
          onChange={event => onChange({ ...prompt, text: event.target.value })}
          onKeyDown={event => {
            if (event.nativeEvent.isComposing) return
            if (event.key === 'Enter' && (event.metaKey || event.ctrlKey || !event.shiftKey)) {
              event.preventDefault()
              run()
            }
            if (event.key === 'Escape' && isBusy) onStop()
          }}
        />
        <input
          ref={picker}
          type="file"
          accept="image/*"
          multiple
          hidden
          onChange={event => {
            void add(event.target.files)
            event.target.value = ''
          }}
        />
        <IconButton
          icon={ImagePlus}
          label={t('playground.add_image')}
          disabled={pictures.length >= MAX_PICTURES}
          onClick={() => picker.current?.click()}
        />
        {isBusy ? (
          <Button icon={Square} onClick={onStop}>
            {t('playground.stop')}
          </Button>
        ) : (
          <Button type="submit" kind="primary" icon={Send} disabled={!isReady}>
            {t('playground.run')}
          </Button>
        )}
      </div>
    </form>
  )
}
