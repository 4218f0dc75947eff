// `require` cannot load the program, which uses top-level await.
import('../../dist/main.js')
