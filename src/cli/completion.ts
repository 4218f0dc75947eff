/** A command as the shells complete it. */
export type CompletedCommand = {
  /** One or two words. */
  readonly name: string
  readonly summary: string
  readonly options: readonly { readonly name: string; readonly takesValue: boolean }[]
}

/** The first words of all commands, and the second words of those that have two. */
function wordsOf(commands: readonly CompletedCommand[]) {
  const split = commands.map(({ name, summary }) => ({ words: name.split(' '), summary }))
  const firsts = [...new Set(split.map(({ words }) => words[0] ?? ''))]
  const seconds = Map.groupBy(
    split.filter(({ words }) => words.length === 2),
    ({ words }) => words[0] ?? '',
  )
  return { firsts, seconds }
}

const flags = ({ options }: CompletedCommand) => options.map(({ name }) => `--${name}`).join(' ')

/** A text in single quotes, for a shell. */
const quoted = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`

function bash(commands: readonly CompletedCommand[]): string {
  const { firsts, seconds } = wordsOf(commands)
  const cases = commands.map(command => `    ${quoted(command.name)}) options=${quoted(flags(command))} ;;`)
  const groups = [...seconds].map(([first, entries]) => {
    const words = entries.map(({ words: [, second = ''] }) => second).join(' ')
    return `    ${quoted(first)}) words=${quoted(words)} ;;`
  })
  return `# bash completion of sluice: source <(sluice completion bash)
_sluice() {
  local current=\${COMP_WORDS[COMP_CWORD]} first=\${COMP_WORDS[1]} second=\${COMP_WORDS[2]} words= options=
  case $first in
${groups.join('\n')}
  esac
  if [ "$COMP_CWORD" -eq 1 ]; then
    words=${quoted(firsts.join(' '))}
  elif [ "$COMP_CWORD" -gt 2 ] || [ -z "$words" ]; then
    if [ -n "$words" ]; then first="$first $second"; fi
    words=
    case $first in
${cases.join('\n').replaceAll(/^ {4}/gm, '      ')}
    esac
  fi
  if [[ $current == -* ]]; then words=$options; fi
  # Without a word that fits, bash completes file names.
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _sluice sluice
`
}

function zsh(commands: readonly CompletedCommand[]): string {
  const { firsts, seconds } = wordsOf(commands)
  const summaryOf = (first: string) =>
    commands.find(({ name }) => name === first)?.summary ??
    `${first}: ${(seconds.get(first) ?? []).map(({ words }) => words[1]).join(', ')}`
  const entry = (word: string, summary: string) => quoted(`${word}:${summary.replaceAll(':', '\\:')}`)
  const groups = [...seconds].map(
    ([first, entries]) =>
      `      ${first}) commands=(${entries.map(({ words, summary }) => entry(words[1] ?? '', summary)).join(' ')}) ;;`,
  )
  const cases = commands.map(
    command =>
      `    ${quoted(command.name)}) options=(${command.options.map(({ name, takesValue }) => quoted(takesValue ? `--${name}=:${name}:_files` : `--${name}`)).join(' ')}) ;;`,
  )
  return `#compdef sluice
# zsh completion of sluice: source <(sluice completion zsh)
_sluice() {
  local -a commands options
  local name=$words[2]
  if (( CURRENT == 2 )); then
    commands=(${firsts.map(first => entry(first, summaryOf(first))).join(' ')})
    _describe command commands
    return
  fi
  if [[ ${[...seconds.keys()].map(first => `$name == ${first}`).join(' || ')} ]]; then
    if (( CURRENT == 3 )); then
      case $name in
${groups.join('\n').replaceAll(/^ {6}/gm, '        ')}
      esac
      _describe command commands
      return
    fi
    name="$name $words[3]"
  fi
  case $name in
${cases.join('\n')}
  esac
  _arguments $options '*:file:_files'
}
compdef _sluice sluice
`
}

function fish(commands: readonly CompletedCommand[]): string {
  const { firsts, seconds } = wordsOf(commands)
  const summaryOf = (first: string) => commands.find(({ name }) => name === first)?.summary ?? first
  const lines = firsts.map(
    first =>
      `complete -c sluice -n __fish_use_subcommand -f -a ${quoted(first)} -d ${quoted(summaryOf(first))}`,
  )
  for (const [first, entries] of seconds)
    for (const { words, summary } of entries)
      lines.push(
        `complete -c sluice -n ${quoted(`__sluice_is ${first}`)} -f -a ${quoted(words[1] ?? '')} -d ${quoted(summary)}`,
      )
  for (const { name, options } of commands)
    for (const option of options)
      lines.push(
        `complete -c sluice -n ${quoted(`__sluice_in ${name}`)} -l ${quoted(option.name)}${option.takesValue ? ' -r' : ''}`,
      )
  return `# fish completion of sluice: sluice completion fish | source
function __sluice_is
  set -l words (commandline -opc)
  test "$words[2..-1]" = "$argv"
end
function __sluice_in
  set -l words (commandline -opc)
  set -l last (math (count $argv) + 1)
  test (count $words) -ge $last; and test "$words[2..$last]" = "$argv"
end
${lines.join('\n')}
`
}

const SHELLS = { bash, zsh, fish } as const

export const SHELL_NAMES = Object.keys(SHELLS)

/** The script that makes a shell complete commands and options; undefined for an unknown shell. */
export function completionScript(shell: string, commands: readonly CompletedCommand[]): string | undefined {
  return Object.hasOwn(SHELLS, shell) ? SHELLS[shell as keyof typeof SHELLS](commands) : undefined
}
