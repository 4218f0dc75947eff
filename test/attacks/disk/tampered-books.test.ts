import { describeTamperedBooks } from '../../support/tampered-books.ts'

// PostgreSQL is in the system tests.
describeTamperedBooks('sqlite')
