import { type ComponentType, createElement, type SVGProps } from 'react'

export type Icon = ComponentType<SVGProps<SVGSVGElement> & { readonly size?: number }>

/** Names and attributes of the SVG elements of an icon. */
type Shapes = readonly (readonly [name: string, attributes: Readonly<Record<string, string>>])[]

export const createIcon =
  (shapes: Shapes): Icon =>
  ({ size = 24, ...props }) =>
    createElement(
      'svg',
      {
        xmlns: 'http://www.w3.org/2000/svg',
        width: size,
        height: size,
        viewBox: '0 0 24 24',
        fill: 'none',
        stroke: 'currentColor',
        strokeWidth: 2,
        strokeLinecap: 'round',
        strokeLinejoin: 'round',
        'aria-hidden': true,
        ...props,
      },
      ...shapes.map(([name, attributes]) => createElement(name, attributes)),
    )
