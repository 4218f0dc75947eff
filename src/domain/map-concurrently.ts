/** Calls `run` for each item with limited concurrency, and returns the results in order. A hanging item blocks one slot. */
export async function mapConcurrently<In, Out>(
  items: readonly In[],
  concurrency: number,
  run: (item: In) => Promise<Out>,
): Promise<Out[]> {
  const results: Out[] = []
  let next = 0
  const work = async () => {
    for (let index = next++; index < items.length; index = next++)
      results[index] = await run(items[index] as In)
  }
  await Promise.all(Array.from({ length: Math.min(concurrency, items.length) }, work))
  return results
}
