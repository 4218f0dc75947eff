/** An error that belongs to no field of the form. */
export const FormError = ({ words }: { readonly words: string | undefined }) =>
  words ? (
    <p role="alert" className="rounded-control bg-bad-soft px-3 py-2 text-bad">
      {words}
    </p>
  ) : null
