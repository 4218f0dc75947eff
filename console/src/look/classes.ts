/** Joins the class names that are not false. */
export const classes = (...names: readonly (string | false | undefined)[]) => names.filter(Boolean).join(' ')
