/** Opens the closed part of a form that contains an invalid field: the browser cannot show its message on a hidden field. */
export function openPartsOfInvalidFields(): void {
  addEventListener(
    'invalid',
    ({ target }) => target instanceof Element && target.closest('details')?.setAttribute('open', ''),
    true,
  )
}
