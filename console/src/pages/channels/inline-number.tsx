import { useEffect, useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { useErrorText } from '../../look/states.tsx'
import { toast } from '../../look/toast.tsx'

type InlineNumberProps = {
  readonly label: string
  readonly value: number
  readonly save: (value: number) => Promise<unknown>
  /** Keyboard shortcut that focuses this field. */
  readonly hint?: string
}

/** A number edited in place: Enter saves, Escape restores, and the toast offers undo. */
export function InlineNumber({ label, value, save, hint }: InlineNumberProps) {
  const { t } = useTranslation()
  const words = useErrorText()
  const [text, setText] = useState(String(value))
  const [fault, setFault] = useState<string>()
  const isLeaving = useRef(false)
  useEffect(() => setText(String(value)), [value])

  const submit = async (next: number, undo: boolean) => {
    setFault(undefined)
    try {
      await save(next)
      toast(t('inline.saved', { label, value: next }), undo ? () => void submit(value, false) : undefined)
    } catch (error) {
      setFault(words(error))
      setText(String(value))
    }
  }
  const finish = () => {
    const next = Number(text)
    if (isLeaving.current || !Number.isInteger(next) || text.trim() === '') setText(String(value))
    else if (next !== value) void submit(next, true)
    isLeaving.current = false
  }
  return (
    <>
      <input
        type="number"
        step={1}
        aria-label={label}
        data-key={hint}
        aria-invalid={fault ? true : undefined}
        title={fault}
        value={text}
        onChange={event => setText(event.target.value)}
        onBlur={finish}
        onKeyDown={event => {
          event.stopPropagation()
          if (event.key === 'Escape') isLeaving.current = true
          if (event.key === 'Enter' || event.key === 'Escape') {
            event.preventDefault()
            event.currentTarget.blur()
          }
        }}
        className="h-7 w-15 rounded-control border border-transparent bg-transparent px-1.5 text-right hover:border-edge focus:border-edge focus:bg-sheet aria-invalid:border-bad"
      />
      {fault ? <span className="block text-label text-bad">{fault}</span> : null}
    </>
  )
}
