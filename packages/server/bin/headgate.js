#!/usr/bin/env node
// What npm links to has to be there before anything is built.
import '../dist/main.js'
