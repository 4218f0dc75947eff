import { describeTamperedBooks } from '../../../support/tampered-books.ts'

describeTamperedBooks('postgres')
